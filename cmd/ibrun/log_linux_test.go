package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/message"
)

// asJSON is the flag that these jobs have.
const asJSON = "--log-format=json"

// messages returns the messages of a job that has ended with this code. All lines on standard error must be messages, but for
// those that its program has written. The last message with an exit code is the end of the job.
func (p *process) messages(code int, written ...string) (all []*message.Message) {
	p.t.Helper()
	p.wantCodeOnly(code)
	for line := range strings.Lines(p.stderrText()) {
		line = strings.TrimSuffix(line, "\n")
		m, ok := message.Decode(line)
		switch {
		case ok:
			all = append(all, m)
		case !slices.Contains(written, line):
			p.t.Errorf("%q is not a message", line)
		}
	}
	ends := slices.DeleteFunc(slices.Clone(all), func(m *message.Message) bool { return m.ExitCode == nil })
	level := slog.LevelInfo
	if code != 0 {
		level = slog.LevelError
	}
	if len(ends) != 1 || *ends[0].ExitCode != code || ends[0].Level != level || ends[0].DurationSeconds <= 0 {
		p.t.Errorf("want one end of the job with exit code %d:\n%s", code, p.stderrText())
	}
	return all
}

// wantMessage checks that there is a message like this: of its attributes those of want that are not zero are compared, and its
// origin if that has a host.
func (p *process) wantMessage(all []*message.Message, want message.Message) *message.Message {
	p.t.Helper()
	for _, m := range all {
		if m.Msg == want.Msg && m.Level == want.Level && (want.Host == "" || m.Host == want.Host && m.Node == want.Node) {
			got, wanted := reflect.ValueOf(m.Attrs), reflect.ValueOf(want.Attrs)
			for i := range wanted.NumField() {
				if w := wanted.Field(i); !w.IsZero() && !reflect.DeepEqual(got.Field(i).Interface(), w.Interface()) {
					p.t.Errorf("%s is %v, want %v in %+v", wanted.Type().Field(i).Name, got.Field(i), w, m)
				}
			}
			return m
		}
	}
	text, _ := json.Marshal(want) // it has only texts and numbers
	p.t.Errorf("there is no message like %s:\n%s", text, p.stderrText())
	return &want
}

// What the program of a job writes stays as it is.
func TestLogOfOneNode(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, asJSON, "-v", "-n", "2", "true")
	all := p.messages(0)
	m := p.wantMessage(all, message.Message{Msg: "a rank runs", Attrs: message.Attrs{Rank: new(0)}})
	if m.PID == 0 || m.Job == "" || m.Host == "" {
		t.Errorf("it is %+v", m)
	}
	p = startJob(t, 0, asJSON, "-n", "1", "sh", "-c", "echo words >&2; exit 3")
	m = p.wantMessage(p.messages(3, "words"), message.Message{Level: slog.LevelError, Msg: "a rank has failed", Attrs: message.Attrs{
		Rank: new(0), RankNode: new(0), RankExitCode: new(3)}})
	if !strings.Contains(p.stderrText(), "words\n") || m.PID == 0 {
		t.Errorf("%s", p.stderrText())
	}
	p = startJob(t, 0, asJSON, "-n", "1", "no-such-program")
	p.wantMessage(p.messages(127), message.Message{Level: slog.LevelError, Msg: "the job could not be run"})
	p = startCommand(t, 0, exec.Command("ibrun", "--bogus"))
	p.wantCode(2, "ibrun: unknown flag --bogus")
	c := exec.Command("ibrun", "--bogus")
	c.Env = []string{"IBRUN_LOG_FORMAT=json"}
	p = startCommand(t, 0, c)
	p.wantCodeOnly(2)
	m, ok := message.Decode(strings.TrimSuffix(p.stderrText(), "\n"))
	if !ok || m.ExitCode == nil || *m.ExitCode != 2 || m.Error == "" {
		t.Errorf("a wrong command line: %s", p.stderrText())
	}
}

// A job that ibrun has started on another host: node 0 prints all messages, also those of the other node before and after it has
// joined, and how a rank there has died.
func TestLogOfStartedNode(t *testing.T) {
	t.Parallel()
	p := startCommand(t, 2, startOn(t, direct, "b:1,c:1", asJSON, "-v", "--metrics", ":0", "rank", "hang", "sleep"))
	p.eventually("rank 0 does not wait", func() bool {
		out, err := exec.Command("ibrun", "hang", p.jobOf()).Output()
		return err == nil && bytes.Contains(out, []byte("rank 0 on b: in Recv from rank 1"))
	})
	victim := p.rankPID(0)
	p.signal(victim, syscall.SIGKILL)
	all := p.messages(137)
	p.wantMessage(all, message.Message{Msg: "connected to node 0", Origin: message.Origin{Host: "b", Node: 1}})
	p.wantMessage(all, message.Message{Msg: "metrics are served", Origin: message.Origin{Host: "c", Node: 2}})
	p.wantMessage(all, message.Message{Msg: "a rank reports", Origin: message.Origin{Host: "b", Node: 1}})
	m := p.wantMessage(all, message.Message{Level: slog.LevelError, Msg: "a rank was killed by a signal",
		Origin: message.Origin{Host: "h0"}, Attrs: message.Attrs{Rank: new(0), RankNode: new(1), RankHost: "b", PID: victim, Signal: 9,
			SignalName: "SIGKILL", Call: "it was in Recv from rank 1 with tag 7"}})
	end := all[len(all)-1]
	if m.Job == "" || end.Job != m.Job || end.Host != "h0" || end.Node != 0 || end.ExitCode == nil {
		t.Errorf("the last message is %+v, after %+v", end, m)
	}
}

// rankPID returns the process of a rank, as its message says. It waits for that.
func (p *process) rankPID(rank int) (pid int) {
	p.t.Helper()
	p.eventually("no message about a rank", func() bool {
		for line := range strings.Lines(p.stderrText()) {
			m, ok := message.Decode(strings.TrimSuffix(line, "\n"))
			if ok && m.Msg == "a rank runs" && *m.Rank == rank {
				pid = m.PID
			}
		}
		return pid != 0
	})
	return pid
}

// jobOf returns the id of the job, as the first message that has one says; empty if none has.
func (p *process) jobOf() (id string) {
	for line := range strings.Lines(p.stderrText()) {
		if m, ok := message.Decode(strings.TrimSuffix(line, "\n")); ok {
			id = cmp.Or(id, m.Job)
		}
	}
	return id
}

// Users have started both nodes: each of them prints the reason and the end, with what node 0 knows about a rank that is not its
// own.
func TestLogOfTwoNodes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2).start(1, asJSON, "-n", "2", "rank", "sleep")
	ns.list[1].signal(ns.list[1].pids[0], syscall.SIGTERM)
	for k, p := range ns.list {
		all := p.messages(128 + int(syscall.SIGTERM))
		m := p.wantMessage(all, message.Message{Level: slog.LevelError, Msg: "a rank was killed by a signal",
			Origin: message.Origin{Host: []string{"n0", "n1"}[k], Node: k}, Attrs: message.Attrs{Rank: new(1), RankNode: new(1),
				RankHost: "n1", PID: ns.list[1].pids[0], Signal: int(syscall.SIGTERM), SignalName: "SIGTERM"}})
		if m.Job == "" {
			t.Errorf("node %d has no job in %+v", k, m)
		}
	}
}

// The time-out, a hang view, the request of a user, metrics that wait for a scrape, and warnings at the start.
func TestLogOfEvents(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, asJSON, "-n", "1", "--timeout", "0.2", "--grace", "0.1", "rank", "sleep")
	all := p.messages(124)
	p.wantMessage(all, message.Message{Level: slog.LevelError, Msg: "the job did not end in time",
		Attrs: message.Attrs{Ranks: []int{0}, LimitSeconds: 0.2}})

	p = startJob(t, 2, asJSON, "-n", "2", "--grace", "0.3", "rank", "stubborn")
	p.signal(p.cmd.Process.Pid, syscall.SIGUSR1)
	p.eventually("no hang view", func() bool { return strings.Contains(p.stderrText(), `"msg":"the state of the ranks"`) })
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	all = p.messages(130)
	p.wantMessage(all, message.Message{Level: slog.LevelWarn, Msg: "the ranks were asked to end",
		Attrs: message.Attrs{Signal: 2, SignalName: "SIGINT", LimitSeconds: 0.3}})
	p.wantMessage(all, message.Message{Level: slog.LevelError, Msg: "ranks were killed because they did not end",
		Attrs: message.Attrs{Ranks: []int{0, 1}, Signal: 2}})

	p = startJob(t, 0, asJSON, "-n", "1", "--metrics", ":0", "--metrics-linger", "0.1", "true")
	all = p.messages(0)
	p.wantMessage(all, message.Message{Msg: "metrics are served"})
	p.wantMessage(all, message.Message{Msg: "the metrics stay until they are scraped", Attrs: message.Attrs{LimitSeconds: 0.1}})

	p = startJob(t, 0, asJSON, "--hosts", "localhost:1", "-n", "2", "--report=-", "true")
	all = p.messages(0)
	p.wantMessage(all, message.Message{Level: slog.LevelWarn, Msg: "the hosts are not used as they may be meant"})
	if m := p.wantMessage(all, message.Message{Msg: "where the time of the job went"}); !strings.Contains(m.Text, "\n") {
		t.Errorf("the report is %q", m.Text)
	}
}
