package qemu

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	c := Config{Accel: TCG, Kernel: "/a b/vmlinuz", Initrd: "/i", CPUs: 1, Memory: 512, Port: "p", MountTag: "m", Number: 1}
	all := func(wire bool) string { return strings.Join(append(c.arguments(wire), c.boot()...), "\n") }
	for _, want := range []string{
		"-accel\ntcg,thread=multi\n-cpu\nmax,erms=off", "-smp\n1\n-m\n512", "mac=52:54:00:00:00:02", "-kernel\n/a b/vmlinuz\n",
		"path=/,security_model=none,readonly=on", "mount_tag=m", "chardev=port,name=p", "panic=-1", "-no-reboot",
	} {
		if !strings.Contains(all(false), want) {
			t.Errorf("%q is not in\n%s", want, all(false))
		}
	}
	if got := all(false); !strings.Contains(got, "user,id=net,restrict=on") {
		t.Errorf("a machine without a wire:\n%s", got)
	}
	if got := all(true); !strings.Contains(got, "socket,id=net,fd=4") || strings.Contains(got, "user,") {
		t.Errorf("a machine on a wire:\n%s", got)
	}
	c.Accel = KVM
	if got := c.arguments(false); !slices.Contains(got, "kvm") || !slices.Contains(got, "host") {
		t.Errorf("%q", got)
	}
}

func TestConsoleKeepsTheEnd(t *testing.T) {
	var c console
	for n := range 10_000 {
		fmt.Fprintf(&c, "line %d\r\n", n)
	}
	got := c.end()
	if len(got) > keepConsole || !strings.HasSuffix(got, "line 9998\nline 9999\n") || !strings.HasPrefix(got, "line ") {
		t.Errorf("%d bytes: %.40q...%q", len(got), got, got[len(got)-40:])
	}
	c.Write([]byte("\x1b[2J\x00end"))
	if got := c.end(); !strings.HasSuffix(got, "\n[2Jend") {
		t.Errorf("control characters were kept: %q", got[len(got)-20:])
	}
	if got := new(console).end(); got != "" {
		t.Errorf("an empty console returned %q", got)
	}
}

func TestPanic(t *testing.T) {
	for console, want := range map[string]string{
		"": "",
		"[    2.0] a line\n[    3.4] Kernel panic - not syncing: sysrq triggered crash\n[    3.4] CPU: 1\n": "Kernel panic - not " +
			"syncing: sysrq triggered crash",
		"the words kernel panic by themselves\n":                       "",
		"Kernel panic - not syncing: a\nKernel panic - not syncing: b": "Kernel panic - not syncing: a",
	} {
		if got := Panic(console); got != want {
			t.Errorf("%q: %q, want %q", console, got, want)
		}
	}
}
