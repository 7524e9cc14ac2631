package launch

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/job"
	"github.com/ibrun/ibrun/internal/pmi"
	"golang.org/x/sys/unix"
)

// What a rank said before it died is heard, however long the agent takes to get to it.
func TestHangUp(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "rank")
	defer theirs.Close() // held by a child of the rank
	if _, err := theirs.WriteString("cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=7\n"); err != nil {
		t.Fatal(err)
	}
	link, linkEnd, err := job.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer linkEnd.Close() // likewise
	if _, err := linkEnd.WriteString("\x04\x01" + `{"Text":"last words"}`); err != nil {
		t.Fatal(err)
	}
	code, dead := 0, make(chan struct{})
	server, err := pmi.NewServer(pmi.Job{Size: 1, KVSName: "job", Events: pmi.Events{
		Init: func(int) {
			<-dead
			time.Sleep(150 * time.Millisecond) // the machine is busy
		},
		Abort: func(_, c int, _ string) { code = c },
	}})
	if err != nil {
		t.Fatal(err)
	}
	var events strings.Builder
	a := &agent{server: server, events: json.NewEncoder(&events)}
	r := &rank{task: &rankTask{}, pmi: os.NewFile(uintptr(fds[0]), "agent"), link: link,
		served: make(chan struct{}), heard: make(chan struct{})}
	go a.servePMI(r)
	go func() {
		<-r.served
		time.Sleep(150 * time.Millisecond)
		a.readLink(r)
	}()
	close(dead)
	a.hangUp(r)
	if code != 7 {
		t.Errorf("a rank aborted with 7, and %d was heard", code)
	}
	if a.mu.Lock(); !strings.Contains(events.String(), "last words") {
		t.Errorf("a note is not among %s", &events)
	}
	a.mu.Unlock()
}
