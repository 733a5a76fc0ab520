package stdio

import (
	"fmt"
	"strings"

	"github.com/everline/everline/internal/cgroup"
	"github.com/everline/everline/internal/orphan"
)

// cgroupRoot finds where limits can be set.
type cgroupRoot func() (*cgroup.Root, error)

// limit makes the cgroup that the process will start in, where limits are
// configured. One that cannot be had is told, and does not keep the server
// from running.
func (c *conn) limit(s *procSpec) {
	if c.spec.Limits.None() {
		return
	}
	find := c.spec.cgroups
	if find == nil {
		find = cgroup.Find
	}
	root, err := find()
	if err == nil {
		c.group, err = root.New(cgroup.Prefix+strings.TrimSuffix(orphan.NewMark(), "."), c.spec.Limits)
	}
	if err != nil {
		c.notice(cgroupNotice(err))
		return
	}
	s.cgroup = c.group.Dir()
	for _, unmet := range c.group.Unmet() {
		c.notice(notEnforced + unmet)
	}
}

const notEnforced = "limits are not enforced: "

// cgroupNotice is "" for nil.
func cgroupNotice(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%s%v", notEnforced, err)
}

func (c *conn) notice(text string) {
	if text != "" {
		c.notices = append(c.notices, text)
	}
}

// endGroup kills whatever may be left in the cgroup and removes it. It is
// false if that does not work.
func (c *conn) endGroup() bool { return c.group == nil || c.group.End() == nil }

// cgroupEnter puts a process that was started without a shim into a cgroup.
func cgroupEnter(dir string, pid int) error { return cgroup.Enter(dir, pid) }
