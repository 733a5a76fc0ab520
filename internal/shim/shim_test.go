package shim

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSpecThereAndBack(t *testing.T) {
	for _, want := range []Spec{
		{Path: "/bin/x", Args: []string{"x"}, Env: []string{}},
		{Path: "/bin/x", Args: []string{"x", "", "a b", "\n"}, Env: []string{"A=", "B=\xff", "C=" + strings.Repeat("c", 200_000)}, Dir: "/d", Cgroup: "/c", Privileges: true, Grace: 1500 * time.Millisecond},
	} {
		frame := string(want.Encode())
		size, err := strconv.ParseUint(frame[:sizeDigits], 16, 31)
		if err != nil || int(size) != len(frame)-sizeDigits {
			t.Fatalf("size %d of %d, %v", size, len(frame), err)
		}
		if got, err := decode(frame[sizeDigits:]); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, body := range []string{
		"", "\x00", "p\x00d\x00c\x001\x00", "p\x00d\x00c\x00x\x001\x00a\x00", "p\x00d\x00c\x001\x00\x00x\x00a\x00",
		"p\x00d\x00c\x001\x00\x000\x00a\x00", "p\x00d\x00c\x001\x00\x00-1\x00a\x00", "p\x00d\x00c\x001\x00\x003\x00a\x00",
	} {
		body = Version + "\x00" + body
		if s, err := decode(body); err == nil {
			t.Errorf("%q: %+v", body, s)
		}
	}
}

// What everline and a shim of two releases say to each other does not change.
func TestFormIsFrozen(t *testing.T) {
	spec := Spec{Path: "/p", Args: []string{"p", "a"}, Env: []string{"E=1"}, Dir: "/d", Cgroup: "/c", Privileges: true, Grace: time.Second}
	const want = "00000022" + "2\x00/p\x00/d\x00/c\x001000000000\x00p\x002\x00p\x00a\x00E=1\x00"
	if got := string(spec.Encode()); got != want {
		t.Errorf("an order is %q, want %q", got, want)
	}
	if CommandTerm != 'T' || CommandKill != 'K' || ReportStarted != 'S' || ReportFailed != 'E' || ReportCgroup != 'C' || ReportExited != 'X' || ReportSize != 5 {
		t.Error("a command or a report has changed: give a new meaning a new byte")
	}
	if _, err := decode("1" + want[sizeDigits+1:]); !errors.Is(err, errVersion) {
		t.Errorf("an order of another version: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(string(Spec{Path: "/p", Args: []string{"a"}, Env: []string{"E=1"}}.Encode()[sizeDigits:]))
	f.Fuzz(func(t *testing.T, body string) {
		s, err := decode(body)
		if err != nil {
			return
		}
		if again, err := decode(string(s.Encode()[sizeDigits:])); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%+v became %+v, %v", s, again, err)
		}
	})
}
