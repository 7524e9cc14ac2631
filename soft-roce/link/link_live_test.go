package link_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// netdev makes a pair of network devices for the time of a test and returns the name of one.
func netdev(t *testing.T) string {
	t.Helper()
	const a, b = "linktest0", "linktest1"
	for _, args := range [][]string{
		{"link", "add", a, "type", "veth", "peer", "name", b},
		{"link", "set", a, "up"},
		{"link", "set", b, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", a).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	return a
}

func names(t *testing.T) (names []string) {
	t.Helper()
	links, err := link.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		names = append(names, l.Name+" on "+l.Netdev+" is "+l.State)
	}
	return names
}

func TestLiveAddListDelete(t *testing.T) {
	live.Device(t)
	dev := netdev(t)
	before := names(t)
	if err := link.Add("linktest", dev); err != nil {
		t.Fatal(err)
	}
	if got := names(t); !slices.Contains(got, "linktest on "+dev+" is ACTIVE") || len(got) != len(before)+1 {
		t.Errorf("there are %q", got)
	}
	for want, err := range map[error]error{
		link.ErrNameInUse:   link.Add("linktest", "linktest1"),
		link.ErrNetdevInUse: link.Add("another", dev),
		link.ErrNoNetdev:    link.Add("another", "nosuch0"),
		link.ErrNoLink:      link.Delete("another"),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := link.Delete("linktest"); err != nil {
		t.Fatal(err)
	}
	if got := names(t); !slices.Equal(got, before) {
		t.Errorf("%q are left of %q", got, before)
	}
	if err := link.Delete("linktest"); !errors.Is(err, link.ErrNoLink) {
		t.Errorf("deleting it again: %v", err)
	}
}

func TestLiveWithoutPermission(t *testing.T) {
	device := live.Device(t)
	dev := netdev(t)
	if err := link.Add("linktest", dev); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"up " + dev, "down " + device} {
		args := append([]string{"--bounding-set=-net_admin", "ibrun", "soft-roce"}, strings.Fields(word)...)
		out, err := exec.Command("setpriv", args...).CombinedOutput()
		if err == nil || !errors.As(err, new(*exec.ExitError)) || !strings.Contains(string(out), "permission denied") {
			t.Errorf("ibrun soft-roce %s without CAP_NET_ADMIN: %v\n%s", word, err, out)
		}
	}
	if err := link.Delete("linktest"); err != nil {
		t.Fatal(err)
	}
}
