package bootstrap

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// asked returns a link whose other end this process answers.
func asked(t *testing.T) *ranklink.Link {
	t.Helper()
	agent, end, err := ranklink.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Send(ranklink.KindRankInfo, ranklink.RankInfo{Size: 1, NodeRanks: []int{0}}); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(end.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	rank, info, err := ranklink.FromEnv(func(string) string { return fmt.Sprint(fd) })
	if err != nil {
		t.Fatal(err)
	}
	var over sync.WaitGroup
	over.Go(func() {
		newLinkServer(rank, new(Process), info).run()
		rank.Close()
	})
	t.Cleanup(func() {
		agent.Close()
		over.Wait()
	})
	return agent
}

func askStacks(t *testing.T, agent *ranklink.Link) ranklink.Stacks {
	t.Helper()
	if err := agent.Send(ranklink.KindRequestStacks, nil); err != nil {
		t.Fatal(err)
	}
	m, err := agent.Recv(t.Context())
	var s ranklink.Stacks
	if err == nil {
		err = m.Decode(&s)
	}
	if err != nil || m.Kind != ranklink.KindStacks {
		t.Fatalf("%+v, %v", m, err)
	}
	return s
}

// spinForEver calls nothing, so only preemption stops it.
func spinForEver(stop *atomic.Bool) {
	for !stop.Load() {
	}
}

// TestStacksOfALoop: a process replies although all its processors run loops without calls. The reply contains its
// goroutines except the one that replies.
func TestStacksOfALoop(t *testing.T) {
	agent := asked(t)
	var stop atomic.Bool
	var loops sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		loops.Go(func() { spinForEver(&stop) })
	}
	text := ""
	for !strings.Contains(text, "spinForEver(") { // it may not have begun
		text = askStacks(t, agent).Text
	}
	if strings.Contains(text, "bootstrap.new(Process).serveLink(") || !strings.HasPrefix(text, "goroutine ") ||
		strings.HasSuffix(text, "\n\n") {
		t.Errorf("stacks are\n%s", text)
	}
	stop.Store(true)
	loops.Wait()
}

// TestStacksOfMany: a text that is too long is cut after a whole goroutine, and marked as cut.
func TestStacksOfMany(t *testing.T) {
	agent := asked(t)
	if s := askStacks(t, agent); s.Truncated {
		t.Errorf("cut although short: %d bytes", len(s.Text))
	}
	stop := make(chan bool)
	defer close(stop)
	for range 2000 {
		go func() { <-stop }()
	}
	s := askStacks(t, agent)
	last := s.Text[strings.LastIndex(s.Text, "\n\n")+1:]
	if !s.Truncated || len(s.Text) > ranklink.MaxStacks || !strings.Contains(last, "created by") || !strings.HasSuffix(last, "\n") {
		t.Errorf("%d bytes, cut %v, the last is\n%s", len(s.Text), s.Truncated, last)
	}
}

// TestStackRequestsSkipInvalid: invalid messages are skipped.
func TestStackRequestsSkipInvalid(t *testing.T) {
	agent := asked(t)
	if err := agent.Send(ranklink.KindNote, ranklink.Note{Text: "a note is not for ranks"}); err != nil {
		t.Fatal(err)
	}
	if text := askStacks(t, agent).Text; !strings.Contains(text, "TestStackRequestsSkipInvalid") {
		t.Errorf("no goroutine of pid %d's test in\n%s", os.Getpid(), text)
	}
}
