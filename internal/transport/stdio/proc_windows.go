package stdio

import (
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A procGroup is a job object, which whatever the process starts becomes part
// of. Closing it, or our death, kills all of it.
type procGroup struct {
	job windows.Handle
	pid uint32
}

// procStart starts a process; its job does here what a shim does elsewhere.
func procStart(s procSpec) (*procChild, error) { return procStartPlain(s) }

// procPrepare makes a console group of its own, so that a break event reaches
// the process and not us.
func procPrepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

// procAdopt puts a process into a job. What it started in the moment before is
// not in it; the interval is short, and Go cannot start a process suspended.
func procAdopt(p *os.Process) (procGroup, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return procGroup{}, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		err = assign(job, uint32(p.Pid))
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return procGroup{}, err
	}
	return procGroup{job: job, pid: uint32(p.Pid)}, nil
}

func assign(job windows.Handle, pid uint32) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return err
	}
	defer func() { _ = windows.CloseHandle(h) }()
	return windows.AssignProcessToJobObject(job, h)
}

// term asks; a process without a console does not hear it, and kill follows.
func (g procGroup) term() { _ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, g.pid) }

func (g procGroup) kill() { _ = windows.TerminateJobObject(g.job, 1) }

// force has nothing to add.
func (procGroup) force() {}

// jobAccounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type jobAccounting struct {
	userTime, kernelTime, periodUser, periodKernel int64
	pageFaults, total, active, terminated          uint32
}

// alive reports whether a process of the job is left.
func (g procGroup) alive() bool {
	var info jobAccounting
	err := windows.QueryInformationJobObject(g.job, windows.JobObjectBasicAccountingInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	return err == nil && info.active > 0
}

// release closes the job and so kills what may be left of it.
func (g procGroup) release() { _ = windows.CloseHandle(g.job) }

// procTryWrite leaves everything to the goroutine that may block: pipes here
// have no other way.
func procTryWrite(uintptr, []byte) (int, error) { return 0, nil }

// shimProgram: there are no shims here.
func shimProgram() string { return "" }
