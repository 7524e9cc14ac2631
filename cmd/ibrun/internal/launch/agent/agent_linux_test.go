package agent

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/output"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/waittest"
)

// Messages that a rank sent before its exit are processed, however late the agent reads them.
func TestDrainConnections(t *testing.T) {
	for _, late := range []string{"PMI", "link"} {
		t.Run(late, func(t *testing.T) { testDrainConnections(t, late) })
	}
}

func testDrainConnections(t *testing.T, late string) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "rank")
	defer theirs.Close() // still open in a child of the rank
	if _, err := theirs.WriteString("cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=7\n"); err != nil {
		t.Fatal(err)
	}
	link, linkEnd, err := ranklink.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer linkEnd.Close() // still open in a child of the rank
	if _, err := linkEnd.WriteString("\x04\x01" + `{"Text":"last note"}`); err != nil {
		t.Fatal(err)
	}
	code, pmiRuns, linkRuns := 0, make(chan struct{}), make(chan struct{})
	soon, then := pmiRuns, linkRuns
	if late == "PMI" {
		soon, then = linkRuns, pmiRuns
	}
	server, err := pmi.NewServer(pmi.Job{Size: 1, KVSName: "job", Events: pmi.Events{
		Init:  func(int) { <-pmiRuns },
		Abort: func(_, c int, _ string) { code = c },
	}})
	if err != nil {
		t.Fatal(err)
	}
	var events strings.Builder
	a := &agent{server: server, events: newEvents(&events)}
	r := &rank{task: &protocol.RankTask{}, pmi: os.NewFile(uintptr(fds[0]), "agent"), link: link,
		pmiDone: make(chan struct{}), linkDone: make(chan struct{})}
	go a.servePMI(r)
	go func() {
		<-linkRuns
		a.readLink(r)
	}()
	close(soon)
	drained := make(chan struct{})
	go func() {
		a.drainConnections(r)
		close(drained)
	}()
	waittest.Nothing(t, 150*time.Millisecond, "drained before the late messages are processed", drained)
	close(then)
	waittest.Receive(t, "all messages are processed", drained)
	if code != 7 {
		t.Errorf("a rank aborted with code 7, and the agent received %d", code)
	}
	if a.events.Flush(0); !strings.Contains(events.String(), "last note") {
		t.Errorf("the note is missing in %s", &events)
	}
}

// writeOutput writes text as a rank does, until it is forwarded.
func writeOutput(t *testing.T, a *agent, r *rank, text string) {
	t.Helper()
	src, dst, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	a.out.Forward(&output.Source{Origin: r.output, Pipe: src, Writer: a.out.Stdout}, func(err error) { t.Error(err) })
	if _, err := dst.WriteString(text); err != nil {
		t.Fatal(err)
	}
	dst.Close()
	a.out.Wait()
}

// The last event of an agent follows the exits of its ranks. If no other rank was asked for, it contains the last output of the
// rank that failed first here, since node 0 may not have known of that failure when it ended the job.
func TestFinish(t *testing.T) {
	pmiEnd, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	link, linkEnd, err := ranklink.Pair()
	if err := errors.Join(err, theirs.Close()); err != nil {
		t.Fatal(err)
	}
	defer linkEnd.Close()
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer devNull.Close()
	var events strings.Builder
	a := &agent{task: &protocol.Task{Ranks: []protocol.RankTask{{Rank: 1}}}, events: newEvents(&events), firstFailed: -1,
		exitsReported: make(chan struct{}),
		out:           output.New(devNull, devNull, true)}
	r := &rank{task: &a.task.Ranks[0], pmi: pmiEnd, link: link, output: output.NewRank(1, "h", false),
		pmiDone: make(chan struct{}), linkDone: make(chan struct{}), exited: make(chan struct{}), reported: make(chan struct{})}
	close(r.pmiDone)
	go a.readLink(r)
	writeOutput(t, a, r, "some words\n")
	a.ranks = []*rank{r}
	if a.sockets, err = newNodeSockets(1); err != nil {
		t.Fatal(err)
	}
	if a.exits, err = newExitWatcher(1); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(a.exits.epoll)
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 3"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{PidFD: &r.pidfd}})
	if err != nil {
		t.Fatal(err)
	}
	r.pid = pid
	if err := a.exits.add(0, pid, r.pidfd, pmiEnd); err != nil {
		t.Fatal(err)
	}
	a.reaper = proctree.NewReaper(pid)
	<-a.reaper.Gone
	finished := make(chan struct{})
	go func() {
		a.finish(&protocol.EndOrder{LastOutputOf: 0}, make(chan protocol.Order))
		close(finished)
	}()
	waittest.Nothing(t, 150*time.Millisecond, "finished before the exits are reported", finished)
	a.reportExits()
	waittest.Receive(t, "the last event is sent", finished)
	a.events.Flush(0)
	var got []protocol.Event
	for text := json.NewDecoder(strings.NewReader(events.String())); text.More(); {
		var e protocol.Event
		if err := text.Decode(&e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if len(got) != 2 || got[0].Kind != protocol.EventExit || got[0].Code != 3 || got[1].Kind != protocol.EventDone ||
		got[1].Rank != 1 ||
		got[1].Text != "some words" {
		t.Errorf("the agent sent %+v", got)
	}
}

// A message for the PMI server that it cannot process is a failure of the job: ranks that wait for it would wait for ever.
func TestUndeliverable(t *testing.T) {
	server, err := pmi.NewServer(pmi.Job{Size: 1, KVSName: "job"}) // it expects no messages
	if err != nil {
		t.Fatal(err)
	}
	var events strings.Builder
	a := &agent{task: &protocol.Task{Host: "h"}, server: server, events: newEvents(&events), firstFailed: -1,
		started: make(chan struct{}), exitsReported: make(chan struct{}), reaper: proctree.NewReaper()}
	close(a.started)
	orders := make(chan protocol.Order, 1)
	orders <- protocol.Order{Exchange: &pmi.ExchangeMessage{Group: "WORLD:0"}}
	close(orders)
	a.handleOrders(orders)
	a.events.Flush(0)
	text := events.String()
	if !strings.Contains(text, `"fault"`) || !strings.Contains(text, "the agent on h cannot continue: pmi: ") {
		t.Errorf("the agent sent %s", text)
	}
}
