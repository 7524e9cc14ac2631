package proctree

import (
	"os"
	"os/exec"
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
	parents := map[int]int{}
	for pid, parent := range below {
		parents[parent] = pid
	}
	grandchild := parents[cmd.Process.Pid]
	if below[cmd.Process.Pid] != os.Getpid() || grandchild == 0 {
		t.Errorf("the descendants are %v, want %d and a child of it", below, cmd.Process.Pid)
	}
	SignalChild(grandchild, os.Getpid()+1, unix.SIGKILL) // not its parent: it must survive
	if p, err := ReadProcess(grandchild); err != nil || p.Zombie {
		t.Errorf("a process with another parent was signalled: %+v, %v", p, err)
	}
	SignalChild(grandchild, cmd.Process.Pid, unix.SIGKILL)
	if err := cmd.Wait(); err != nil { // the shell waits for its child
		t.Error(err)
	}
}
