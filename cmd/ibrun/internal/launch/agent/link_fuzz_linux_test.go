package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// What the agent knows of a rank when it receives the packets of FuzzLink.
const (
	hasStarted    = 1 << iota // the rank has sent KindStarted
	wasAsked                  // for its stacks
	hasItsSockets             // the rank has received them
	linkStates
)

// linkPackets are a packet of each kind, with bodies that the agent accepts and others.
func linkPackets() (all [][]byte) {
	for kind := range ranklink.KindWakeRequest + 2 {
		for _, body := range []string{"", `{}`, `{"Local":1}`, `{"Local":0}`, `{"Local":-1}`, `{"Local":2}`, `{"Local":"1"}`,
			`{"Text":"text","Once":"a"}`, `{"Text":"goroutine 1","Truncated":true}`, `{"Ranks":[0]}`, `[]`} {
			all = append(all, append([]byte{byte(kind), 1}, body...))
		}
	}
	return append(all, []byte{1}, []byte{byte(ranklink.KindNote), 2})
}

// FuzzLink: no packets of a rank make its agent panic or wait for ever, in whatever state it is. Stacks are passed on only if the
// agent has asked for them, and what is shown and stored is bounded.
func FuzzLink(f *testing.F) {
	for state := range byte(linkStates) {
		f.Add(state, bytes.Join(linkPackets(), []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, state byte, packets []byte) {
		agentEnd, rankEnd, err := ranklink.Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer rankEnd.Close()
		sockets, err := newNodeSockets(2)
		if err != nil {
			t.Fatal(err)
		}
		defer sockets.node.Close()
		r := &rank{task: &protocol.RankTask{Rank: 0}, link: agentEnd, linkDone: make(chan struct{})}
		r.linkReady.Store(state&hasStarted != 0)
		r.stacksRequested.Store(state&wasAsked != 0)
		if state&hasItsSockets != 0 {
			sockets.handed(0)
		}
		var sent strings.Builder
		a := &agent{task: &protocol.Task{Ranks: []protocol.RankTask{{Rank: 0}, {Rank: 1}}}, ranks: []*rank{r}, sockets: sockets,
			events: newEvents(&sent), exits: &exitWatcher{ranks: make([]watchedProcess, 2)}}
		a.left.init()
		defer func() { // also after a failure
			a.exits.finalized(0)
			a.left.add([]int{1}) // ends announceLeft
			agentEnd.Close()
		}()
		read := make(chan struct{})
		go func() { // answers, whose descriptors the kernel closes
			defer close(read)
			_, _ = io.Copy(io.Discard, rankEnd)
		}()
		go a.readLink(r)
		for packet := range bytes.SplitSeq(packets, []byte("\n")) {
			if len(packet) == 0 || len(packet) > ranklink.MaxPacket {
				continue // the end of the connection, or none of a size that the socket takes
			}
			if _, err := rankEnd.Write(packet); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Shutdown(int(rankEnd.Fd()), unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		<-r.linkDone
		if err := agentEnd.Shutdown(); err != nil {
			t.Fatal(err)
		}
		<-read
		a.events.Flush(0)
		checkLinkEvents(t, state, sent.String())
		if len(a.noted) > maxNotes {
			t.Errorf("%d notes are remembered", len(a.noted))
		}
	})
}

// checkLinkEvents checks what the agent has passed on of the packets of a rank.
func checkLinkEvents(t *testing.T, state byte, sent string) {
	t.Helper()
	stacks, notes := 0, 0
	for line := range strings.Lines(sent) {
		var e protocol.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Rank != 0:
			t.Errorf("an event of another rank: %s", line)
		case e.Kind == protocol.EventStacks:
			stacks++
		case e.Kind == protocol.EventNote:
			notes++
		default:
			t.Errorf("a rank causes %s", line)
		}
	}
	if stacks > 1 || stacks == 1 && state&wasAsked == 0 || notes > maxNotes+2*maxInvalid+3 {
		t.Errorf("state %x: %d stacks and %d notes", state, stacks, notes)
	}
}
