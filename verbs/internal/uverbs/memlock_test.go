package uverbs

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
)

func TestMemlock(t *testing.T) {
	const (
		status = "Name:\tx\nVmLck:\t       9 kB\nVmPin:\t      64 kB\nCapEff:\t000001ffffffbfff\n"
		first  = "         0          0 4294967295\n"
		nested = "         0       1000          1\n"
	)
	mighty := strings.Replace(status, "bfff", "ffff", 1)
	for name, test := range map[string]struct {
		facts lockLimits
		want  bool
	}{
		"too much":                              {lockLimits{1 << 20, status, first, 4096}, true},
		"exactly as much":                       {lockLimits{1<<20 + 64<<10, status, first, 4096}, false},
		"a byte too much":                       {lockLimits{1<<20 + 64<<10 - 1, status, first, 4096}, true},
		"no limit":                              {lockLimits{math.MaxUint64, status, first, 4096}, false},
		"the capability":                        {lockLimits{1 << 20, mighty, first, 4096}, false},
		"the capability, but not over the host": {lockLimits{1 << 20, mighty, nested, 4096}, true},
		"a kernel that does not count":          {lockLimits{1 << 20, "", "", 4096}, false},
	} {
		m := test.facts.explain(0, 1<<20)
		if (m != nil) != test.want {
			t.Errorf("%s: %v", name, m)
		}
		if m != nil && (m.Limit != test.facts.limit || m.Pinned != 64<<10 || m.Need != 1<<20) {
			t.Errorf("%s: %+v", name, *m)
		}
	}
}

func TestPages(t *testing.T) {
	for _, test := range []struct{ start, length, want uint64 }{
		{0, 0, 0}, {0, 1, 1}, {0, 4096, 1}, {0, 4097, 2}, {4095, 1, 1}, {4095, 2, 2}, {4095, 4098, 3}, {1, 4096, 2}, {8192, 8192, 2},
		{1 << 63, 1 << 62, 1 << 50}, {0, math.MaxUint64, 1 << 52},
	} {
		if got := pages(test.start, test.length, 4096); got != test.want {
			t.Errorf("%#x+%#x: %d pages, want %d", test.start, test.length, got, test.want)
		}
	}
}

// TestMemlockError registers more memory than any limit allows, unless there is no limit.
func TestMemlockError(t *testing.T) {
	c, f := start(t)
	f.respond = func(_, _ []byte) error { return syscall.ENOMEM }
	_, err := c.RegMR(abi.RegMR{Length: 1 << 62}, Driver{})
	var m *MemlockError
	if !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("got %v", err)
	}
	if errors.As(err, &m) && (m.Need != 1<<62 || !strings.Contains(err.Error(), "ulimit -l")) {
		t.Errorf("got %v", err)
	}
	if _, err := c.RegMR(abi.RegMR{}, Driver{}); !errors.Is(err, syscall.ENOMEM) || errors.As(err, &m) {
		t.Errorf("nothing to lock, but %v", err)
	}
}
