package coordinator

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/perfmem"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
)

// node is one node of the job, as the coordinator knows it.
type node struct {
	number   int
	name     string
	ranks    []int                  // the ranks on this node, ascending
	conn     *control.Conn          // nil for the node of the coordinator
	done     bool                   // no process of the job is left there, or its connection is lost
	doneAt   time.Time              // when it was done in order
	loss     *loss                  // nil: its connection is not lost
	programs []protocol.ProgramFile // the files that it may request
	sent     map[int]bool           // by index: the files that it has requested
	tooMuch  bool                   // it has sent more traces and profiles than allowed
	ending   bool                   // it was ordered to end its ranks
	input    *inputSender           // sends it the standard input of rank 0; nil: nothing does

	// If the coordinator writes the output of this node:
	output     *mergedOutput
	incomplete bool   // it has reported that its output is incomplete
	outputCode int    // the exit code because its output cannot be written; 0: it can
	outputLost string // why not; empty: the user has closed the reading end

	// What another node has sent for the report.
	record *report.Node
	pages  map[int]report.Rank
}

// has reports whether a rank runs on this node.
func (n *node) has(rank int) bool {
	_, found := slices.BinarySearch(n.ranks, rank)
	return found
}

// attrs returns the attributes of a message about this node, which name it unless it is the one that prints the message.
func (n *node) attrs() console.Attrs {
	if n.conn == nil {
		return console.Attrs{}
	}
	return console.Attrs{PeerNode: &n.number, PeerHost: n.name}
}

// checkEvent returns an error for events that this node does not send, or not in this state of the job. The functions that
// process an event rely on it.
func (n *node) checkEvent(e *protocol.Event) error {
	ok, why := false, fmt.Sprintf("it has sent an invalid event %q", e.Kind)
	if e.Rank != 0 { // 0 is also that of events that are about no rank
		why += fmt.Sprintf(" for rank %d", e.Rank)
	}
	switch e.Kind {
	case protocol.EventStarted:
		ok = len(e.Ranks) == len(e.PIDs) && len(e.Ranks) <= len(n.ranks) && slices.Equal(e.Ranks, n.ranks[:len(e.Ranks)])
	case protocol.EventNotStarted:
		ok = (e.Rank == -1 || n.has(e.Rank)) && isCode(e.Code) && e.Code != 0
	case protocol.EventInit, protocol.EventFinalize, protocol.EventAbort, protocol.EventInvalidPMI:
		ok = n.has(e.Rank)
	case protocol.EventExit:
		ok = n.has(e.Rank) && isCode(e.Code) && isCode(e.Signal) && isCode(exitcode.SignalBase+e.Signal)
	case protocol.EventExchange:
		ok = e.Exchange != nil
	case protocol.EventRecorded:
		ok = n.has(e.Rank) && e.Recorded != nil
	case protocol.EventSignal:
		ok = slices.Contains(append(console.EndSignals(), console.ForwardedSignals()...), os.Signal(syscall.Signal(e.Signal)))
	case protocol.EventInspect:
		ok = (e.Question == nil) != (e.Answer == nil)
		if ok && e.Answer != nil {
			ok, why = e.Answer.IsAbout(n.has), "it has sent the state of ranks of other nodes"
		}
	case protocol.EventProgress:
		ok = e.Progress != nil
	case protocol.EventNodeRecord:
		ok = e.NodeRecord != nil && n.record == nil && n.hasPlaces(e.NodeRecord.Ranks)
		why = "it has sent what it knows about itself twice, or about ranks of other nodes"
	case protocol.EventPage:
		ok = n.has(e.Rank)
	case protocol.EventFailure:
		ok = isCode(e.Code) && e.Code != 0
	case protocol.EventOutputLost:
		ok = n.has(e.Rank) && isCode(e.Code) && e.Code != 0
	case protocol.EventOutput:
		ok, why = n.output.accepts(n.number, e), "it has sent output that node 0 has no room for, or does not write"
	case protocol.EventInputTaken:
		ok = e.InputTaken != nil && n.input.sent(e.InputTaken.Bytes)
		why = "it acknowledges standard input that was not sent"
	case protocol.EventNeedFile:
		ok = e.Code >= 0 && e.Code < len(n.programs) && n.programs[e.Code].SHA256 != nil && !n.sent[e.Code]
		why = fmt.Sprintf("it asks for the file of program %d, which is not sent, or was", e.Code)
	case protocol.EventDone:
		ok = n.ending && (e.Rank == -1 || n.has(e.Rank))
		if !n.ending {
			why = "it says that its ranks have ended, but it was not ordered to end them"
		}
	}
	if !ok {
		return protocolError(why)
	}
	return nil
}

// sendFile starts to send a node the file of a program.
func (n *node) sendFile(program int) {
	if n.sent == nil {
		n.sent = map[int]bool{}
	}
	n.sent[program] = true
	go sendFile(n.conn, program, n.programs[program])
}

// unknownRecord returns the record of a node that has sent none.
func (n *node) unknownRecord() *report.Node {
	facts := &report.Node{Name: n.name, Environment: []report.Variable{}, Ports: []report.Port{}, Ranks: []report.Place{}}
	for _, rank := range n.ranks {
		facts.Ranks = append(facts.Ranks, report.Place{Rank: rank})
	}
	return facts
}

// keepPage stores the page of a rank of another node.
func (n *node) keepPage(e *protocol.Event) {
	rank := report.Rank{}
	if rank.Err = errors.New(e.Text); e.Text == "" {
		rank.Snapshot, rank.Err = perfmem.DecodePage(e.Page)
	}
	if n.pages == nil {
		n.pages = map[int]report.Rank{}
	}
	n.pages[e.Rank] = rank
}

// hasPlaces reports whether all places are of ranks on this node.
func (n *node) hasPlaces(places []report.Place) bool {
	return !slices.ContainsFunc(places, func(p report.Place) bool { return !n.has(p.Rank) })
}
