package agent

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"golang.org/x/sys/unix"
)

// reportExits reports the deaths of ranks in their order.
func (a *agent) reportExits() {
	defer close(a.exitsReported)
	for range a.ranks {
		i, when, err := a.exits.next()
		if err != nil {
			a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1, Text: err.Error()})
			return
		}
		r := a.ranks[i]
		ws := a.reaper.Wait(r.pid)
		close(r.exited)
		a.drainConnections(r)
		exit := protocol.Event{Kind: protocol.EventExit, Time: when.UnixNano(), Rank: r.task.Rank, Code: ws.ExitStatus(),
			AfterEnd: a.exits.ranks[i].aliveAtEnd.Load()}
		if ws.Signaled() {
			exit.Code, exit.Signal = 0, int(ws.Signal())
		}
		a.send(&exit)
		close(r.reported)
	}
}

// reportAbort tells that a rank wants the job to end, behind the ends of those that it may have seen die and wants it for.
func (a *agent) reportAbort(rank, code int, text string) {
	e := protocol.Event{Kind: protocol.EventAbort, Time: time.Now().UnixNano(), Rank: rank, Code: code, Text: text}
	a.awaitExits(a.task.LocalIndex(rank))
	a.send(&e)
}

// awaitExits waits until of all ranks that are dead or dying it has been told, or is about to be of the one that waits.
func (a *agent) awaitExits(local int) {
	enough := time.After(exitTimeoutMillis * time.Millisecond) // one of them is stuck, or ranks are still being started
	select {
	case <-a.started:
	case <-enough:
		return
	}
	for i, r := range a.ranks {
		if i == local || isClosed(r.reported) || !a.exits.ranks[i].isDying() {
			continue
		}
		select {
		case <-r.reported:
		case <-a.ranks[local].exited:
			return
		case <-enough:
			return
		}
	}
}

// drainConnections waits until all that a dead rank said by PMI and by its link has been heard, so that it comes before its exit.
func (a *agent) drainConnections(r *rank) {
	// From now on nothing more comes in, even if children of the rank still hold its ends, and no answer waits to be taken;
	// what has come is read first.
	if conn, err := r.pmi.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // it may be closed already
	}
	<-r.pmiDone
	if err := r.link.CloseRead(); err != nil { // nobody has closed it before
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: err.Error()})
		return
	}
	<-r.linkDone
}
