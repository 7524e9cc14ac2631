package proctree

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 1) // the child exists when its pid is printed
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	below := Descendants(os.Getpid())
	child := slices.Index(below, Descendant{cmd.Process.Pid, os.Getpid()})
	ofChild := slices.IndexFunc(below, func(d Descendant) bool { return d.Parent == cmd.Process.Pid })
	if child < 0 || ofChild < child {
		t.Fatalf("the descendants are %v, want %d and then a child of it", below, cmd.Process.Pid)
	}
	grandchild := below[ofChild].PID
	SignalChild(grandchild, os.Getpid()+1, unix.SIGKILL) // not its parent: it must survive
	if p, err := ReadProcess(grandchild); err != nil || p.Zombie {
		t.Errorf("a process with another parent was signalled: %+v, %v", p, err)
	}
	SignalChild(grandchild, cmd.Process.Pid, unix.SIGKILL)
	if err := cmd.Wait(); err != nil { // the shell waits for its child
		t.Error(err)
	}
}
