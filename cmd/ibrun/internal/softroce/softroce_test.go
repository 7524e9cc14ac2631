package softroce

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/link"
)

// machine is a fake machine with network devices eth0 and eth1 and some links.
type machine struct{ links []link.Link }

func (m *machine) add(name, netdev string) error {
	fail := func(err error) error {
		return &link.Error{Op: "add", Name: name, Netdev: netdev, Err: err, Remedy: "a remedy"}
	}
	for _, l := range m.links {
		switch {
		case l.Name == name:
			return fail(fmt.Errorf("%w: file table overflow", link.ErrNameInUse))
		case l.Netdev == netdev:
			return fail(link.ErrNetdevInUse)
		}
	}
	if netdev != "eth0" && netdev != "eth1" {
		return fail(link.ErrNoNetdev)
	}
	m.links = append(m.links, link.Link{Name: name, Netdev: netdev, State: "ACTIVE"})
	return nil
}

func (m *machine) remove(name string) error {
	for i, l := range m.links {
		if l.Name == name {
			m.links = slices.Delete(m.links, i, i+1)
			return nil
		}
	}
	return &link.Error{Op: "delete", Name: name, Err: link.ErrNoLink}
}

func (m *machine) list() ([]link.Link, error) { return m.links, nil }

func works(string) error { return nil }

// A device that is created but cannot work is named, with the reason and what removes it.
func TestUpWithoutEffect(t *testing.T) {
	var m machine
	fails := func(name string) error { return fmt.Errorf("%s: the wrong network namespace", name) }
	for line, name := range map[string]string{"up eth0": "rxe0", "up eth1 mine": "mine"} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(line), &out, &errs, linkFuncs{m.add, m.remove, m.list, fails})
		if code != 0 || out.String() != name+"\n" || !strings.Contains(errs.String(), name+": the wrong network namespace\n") ||
			!strings.Contains(errs.String(), "ibrun soft-roce down "+name) {
			t.Errorf("%s: code %d, %q, %q", line, code, &out, &errs)
		}
	}
}

func TestCommands(t *testing.T) {
	page := Page()
	help, usage := page.Help(), page.Usage()
	var m machine
	for _, c := range []struct {
		line      string
		code      int
		out, errs string
	}{
		{"show", 0, "", ""},
		{"up eth0", 0, "rxe0\n", ""},
		{"up eth0 mine", 1, "", "ibrun soft-roce: add Soft-RoCE link mine on eth0: network device in use"},
		{"up eth9", 1, "", "no such network device\na remedy\n"},
		{"up eth1", 0, "rxe1\n", ""},
		{"show", 0, "NAME  NETDEV  STATE\nrxe0  eth0    ACTIVE\nrxe1  eth1    ACTIVE\n", ""},
		{"down rxe0", 0, "", ""},
		{"down rxe0", 1, "", "delete Soft-RoCE link rxe0: no such Soft-RoCE link\n"},
		{"up eth0 mine", 0, "mine\n", ""},
		{"show", 0, "NAME  NETDEV  STATE\nrxe1  eth1    ACTIVE\nmine  eth0    ACTIVE\n", ""},
		{"help", 0, help, ""},
		{"--help", 0, help, ""},
		{"up --help", 0, help, ""},
		{"down --help", 0, help, ""},
		{"", 2, "", usage},
		{"up", 2, "", usage},
		{"down rxe0 rxe1", 2, "", usage},
		{"show all", 2, "", usage},
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(c.line), &out, &errs, linkFuncs{m.add, m.remove, m.list, works})
		if code != c.code || out.String() != c.out || !strings.Contains(errs.String(), c.errs) || c.errs == "" && errs.Len() > 0 {
			t.Errorf("%s: code %d, %q, %q; want %d, %q, %q", c.line, code, &out, &errs, c.code, c.out, c.errs)
		}
	}
}

// Names in use are skipped, whatever kind of device has them.
func TestFirstFreeName(t *testing.T) {
	taken := func(name, _ string) error {
		if name != "rxe7" {
			return &link.Error{Op: "add", Name: name, Err: link.ErrNameInUse}
		}
		return nil
	}
	var out, errs bytes.Buffer
	if code := run([]string{"up", "eth0"}, &out, &errs, linkFuncs{add: taken, check: works}); code != 0 || out.String() != "rxe7\n" {
		t.Errorf("code %d, %q, %q", code, &out, &errs)
	}
	all := func(name, _ string) error { return link.ErrNameInUse }
	code := run([]string{"up", "eth0"}, &out, &errs, linkFuncs{add: all, check: works})
	if code != 1 || !strings.Contains(errs.String(), "in use") {
		t.Errorf("code %d, %q", code, &errs)
	}
}
