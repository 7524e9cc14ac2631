package hw

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
)

func TestBind(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	before, err := Affinity()
	if err != nil || len(before) == 0 {
		t.Fatalf("affinity is %v, %v", before, err)
	}
	if err := Bind(before[:1]); err != nil {
		t.Fatal(err)
	}
	after, err := Affinity()
	if err != nil || !slices.Equal(after, before[:1]) {
		t.Errorf("bound to %v, affinity is %v, %v", before[:1], after, err)
	}
	if err := Bind(nil); err == nil {
		t.Error("binding to no PU succeeded")
	}
	if err := Bind([]int{before[0], maxID - 1}); !errors.Is(err, ErrBind) {
		t.Errorf("Bind to the nonexistent PU %d returned %v", maxID-1, err)
	}
}

// The affinity of the process includes more than the affinity of one bound thread.
func TestProcessAffinity(t *testing.T) {
	before, err := ProcessAffinity()
	if err != nil || len(before) == 0 {
		t.Fatalf("affinity is %v, %v", before, err)
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := Bind(before[len(before)-1:]); err != nil {
		t.Fatal(err)
	}
	after, err := ProcessAffinity()
	if err != nil || !slices.Equal(after, before) {
		t.Errorf("after one thread was bound it is %v, %v, want %v", after, err, before)
	}
}

func TestThisMachine(t *testing.T) {
	top, err := Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, core := range top.CoresOf(allowed) {
		seen += len(core)
	}
	if seen != len(allowed) {
		t.Errorf("the cores hold %d PUs, %d are allowed", seen, len(allowed))
	}
}
