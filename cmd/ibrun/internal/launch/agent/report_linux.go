package agent

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// reportExits reports the exits of all ranks in the order in which they happened.
func (a *agent) reportExits() {
	defer close(a.exitsReported)
	for range a.ranks {
		i, when, err := a.exits.next()
		if err != nil {
			a.fail(err)
			return
		}
		r := a.ranks[i]
		ws, used := a.reaper.Wait(r.pid)
		close(r.exited)
		a.drainConnections(r)
		a.sockets.handed(i) // the rank requests nothing any more
		exit := protocol.Event{Kind: protocol.EventExit, Time: when.UnixNano(), Rank: r.task.Rank, Code: ws.ExitStatus(),
			AfterEnd: a.exits.ranks[i].aliveAtEnd.Load()}
		if ws.Signaled() {
			exit.Code, exit.Signal = 0, int(ws.Signal())
			if ws.Signal() == unix.SIGKILL {
				exit.Text = a.oom.Explain()
			}
		}
		exit.Text = cmp.Or(exit.Text, readLimits().explain(ws, used))
		a.send(&exit)
		close(r.reported)
	}
}

// reportAbort reports that a rank has called Abort. It first waits for the reports of ranks that have exited before, since
// their exit may be the reason for the call.
func (a *agent) reportAbort(rank, code int, text string) {
	e := protocol.Event{Kind: protocol.EventAbort, Time: time.Now().UnixNano(), Rank: rank, Code: code, Text: text}
	a.awaitExits(a.task.LocalIndex(rank))
	a.sendFromRank(&e)
}

// awaitExits blocks until every rank that has exited or is exiting has been reported. It returns earlier if the calling rank
// local itself exits, or after a timeout.
func (a *agent) awaitExits(local int) {
	select {
	case <-a.started:
	case <-time.After(exitTimeoutMillis * time.Millisecond): // many ranks are still being started
		return
	}
	timeout := time.After(exitTimeoutMillis * time.Millisecond) // a process is stuck
	for i, r := range a.ranks {
		if i == local || isClosed(r.reported) || !a.exits.ranks[i].isDying() {
			continue
		}
		select {
		case <-r.reported:
		case <-a.ranks[local].exited:
			return
		case <-timeout:
			return
		}
	}
}

// drainConnections blocks until all PMI and link messages that an exited rank has sent are processed, so that they are reported
// before its exit.
func (a *agent) drainConnections(r *rank) {
	// After the shutdown no more messages arrive, even if children of the rank have its end of the connection open, and no
	// answer can block. Messages that have arrived can still be read.
	if conn, err := r.pmi.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // it may be closed already
	}
	<-r.pmiDone
	if err := r.link.Shutdown(); err != nil { // it is closed only here
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: r.task.Rank, Text: err.Error()})
		return
	}
	<-r.linkDone
}
