//go:build linux && static

package main

import (
	"debug/elf"
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// TestLiveStatic: a static program needs neither a loader nor a library, works with Soft-RoCE, and with the programs in C.
func TestLiveStatic(t *testing.T) {
	device := live.Device(t)
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is linked dynamically: it has a segment %v", p.Type)
		}
	}
	if _, err := verbs.Open(device, verbs.Options{Provider: "libibverbs"}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("libibverbs in a static program: %v", err)
	}
	node, gid := live.Node{Addr: "127.0.0.1"}, ipv4(t)
	if os.Getenv(verbs.ProviderVariable) != "" {
		t.Errorf("%s is set: the provider must be chosen by default", verbs.ProviderVariable)
	}
	for i, kind := range []string{"rc", "uc", "ud", "srq"} {
		t.Run(kind, func(t *testing.T) {
			g := session{kind: kind, server: cProgram(), client: goProgram(t, ""), from: node, to: node, gid: gid, iters: 50}
			for round := range 2 {
				g.args = []string{"-c", "-p", strconv.Itoa(18715 + 2*i + round)}
				g.run(t)
				g.server, g.client = g.client, g.server
			}
		})
	}
}
