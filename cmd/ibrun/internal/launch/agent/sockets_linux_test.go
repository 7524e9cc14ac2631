package agent

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/fdpass/fdpasstest"
	"github.com/ibrun/ibrun/internal/leakcheck"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/wakesock"
)

// linkedRank is a rank whose end of the link this test holds.
func linkedRank(t *testing.T, number int) (*rank, *ranklink.Link) {
	t.Helper()
	agentEnd, file, err := ranklink.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := agentEnd.Send(ranklink.KindRankInfo, &ranklink.RankInfo{Size: 1, NodeRanks: []int{0}}); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	rankEnd, _, err := ranklink.FromEnv(func(string) string { return strconv.Itoa(fd) })
	if err != nil {
		t.Fatal(err)
	}
	return &rank{task: &protocol.RankTask{Rank: number}, link: agentEnd}, rankEnd
}

// TestSocketRefused: if the kernel does not pass a socket, the rank gets an answer without one, and does not wait for ever.
func TestSocketRefused(t *testing.T) {
	if !soaktest.On() {
		t.Skip("takes 2 s; set IBRUN_SOAK=1 to run it")
	}
	sockets, err := newNodeSockets(2)
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.node.Close()
	r, link := linkedRank(t, 0)
	defer func() {
		if err := errors.Join(r.link.Close(), link.Close()); err != nil {
			t.Error(err)
		}
	}()
	fdpasstest.Exhaust(t)
	if err := sockets.answer(r.link, 0, ranklink.LocalRank{Local: 1}); err != nil {
		t.Fatal(err)
	}
	if m, err := link.Recv(t.Context()); err != nil || m.Kind != ranklink.KindSocket || len(m.Files) != 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestSocketRequests: a rank gets its own sockets once, those that lead to others, and none for ranks that do not exist. The
// agent keeps no receiving end that it has handed out, so the end of a rank is seen by the others.
func TestSocketRequests(t *testing.T) {
	before := leakcheck.Take(t, leakcheck.Files)
	sockets, err := newNodeSockets(2)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{task: &protocol.Task{Ranks: []protocol.RankTask{{Rank: 4}, {Rank: 7}}}, sockets: sockets}
	r, link := linkedRank(t, 7)
	var ends wakesock.Ends
	for _, request := range []struct{ local, descriptors int }{{1, 3}, {1, 0}, {0, 1}, {0, 1}, {-1, 0}, {2, 0}, {1 << 40, 0}} {
		if err := link.Send(ranklink.KindSocketRequest, ranklink.LocalRank{Local: request.local}); err != nil {
			t.Fatal(err)
		}
		m, err := r.link.Recv(t.Context())
		if err == nil {
			err = a.handleLinkMessage(r, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, err := link.Recv(t.Context())
		var of ranklink.LocalRank
		err = errors.Join(err, answer.Decode(&of))
		if err != nil || of.Local != request.local || len(answer.Files) != request.descriptors {
			t.Errorf("request of rank %d: %+v, %v", request.local, answer, err)
		}
		if request.local == 1 && request.descriptors == 3 {
			ends = wakesock.Ends{Receive: answer.Files[0], Send: answer.Files[1], Ended: answer.Files[2]}
			if err := ends.Check(); err != nil {
				t.Error(err)
			}
			continue
		}
		answer.Discard()
	}
	sockets.wake(1)
	sockets.wake(5) // no such rank
	if n, err := unix.Read(ends.Receive, make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("woken by %d bytes, %v", n, err)
	}
	ended := make(chan int, 2)
	w, err := wakesock.Watch(ends.Ended, 2, func(i int) { ended <- i })
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(ends.Receive) // as the kernel does when the rank is killed
	if i := <-ended; i != 1 {
		t.Errorf("rank %d has ended", i)
	}
	sockets.handed(0) // as for a rank that has exited before it requested anything
	if i := <-ended; i != 0 {
		t.Errorf("rank %d has ended", i)
	}
	unix.Close(ends.Send)
	if err := errors.Join(w.Close(), link.Close(), r.link.Close()); err != nil {
		t.Error(err)
	}
	sockets.node.Close()
	before.Compare(t)
}

// TestUnanswered: if the kernel refuses the answer to a request of a rank, its error is reported up to a limit, and counted
// beyond it. It is not an invalid message of the rank.
func TestUnanswered(t *testing.T) {
	l := newLinkTest(t)
	var err error
	if l.sockets, err = newNodeSockets(2); err != nil {
		t.Fatal(err)
	}
	defer l.sockets.node.Close()
	fd := l.sockets.node.Send(1)
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd) // so the kernel cannot pass it
	}
	if err != nil {
		t.Fatal(err)
	}
	go l.readLink(l.r)
	const more = 3
	for range maxInvalid + more {
		l.send(ranklink.KindSocketRequest, ranklink.LocalRank{Local: 1})
	}
	l.send(ranklink.KindSocketRequest, "no rank")
	events := l.sent()
	if err := errors.Join(unix.Dup3(kept, fd, unix.O_CLOEXEC), unix.Close(kept)); err != nil {
		t.Fatal(err)
	}
	var want []string
	for range maxInvalid {
		want = append(want, fmt.Sprintf("its request was not answered: ranklink: send a message of kind %d with 1 descriptors: "+
			"sendmsg: bad file descriptor", ranklink.KindSocket))
	}
	want = append(want, causeOfInvalid+fmt.Sprintf(" (%v: kind %d: json: cannot unmarshal string into Go value of type "+
		"ranklink.LocalRank)", ranklink.ErrMalformed, ranklink.KindSocketRequest),
		"it has sent 3 more requests that were not answered, which are not shown")
	var got []string
	for _, e := range events {
		if e.Kind != protocol.EventNote || e.Rank != 0 {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRankSendsDescriptors: descriptors that a rank sends are closed.
func TestRankSendsDescriptors(t *testing.T) {
	sockets, err := newNodeSockets(1)
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.node.Close()
	a := &agent{task: &protocol.Task{Ranks: []protocol.RankTask{{Rank: 0}}}, sockets: sockets}
	r, link := linkedRank(t, 0)
	defer link.Close()
	defer r.link.Close()
	before := leakcheck.Take(t, leakcheck.Files)
	null, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []ranklink.Kind{ranklink.KindFinalized, ranklink.KindWakeRequest, 200} {
		if err := link.SendFiles(kind, ranklink.LocalRank{}, int(null.Fd()), int(null.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	null.Close()
	if err := link.Send(ranklink.KindFinalized, nil); err != nil { // the message of an unknown kind is skipped
		t.Fatal(err)
	}
	for {
		m, err := r.link.Recv(t.Context())
		if err == nil {
			err = a.handleLinkMessage(r, m)
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == ranklink.KindFinalized && len(m.Files) == 0 {
			break
		}
	}
	before.Compare(t)
}
