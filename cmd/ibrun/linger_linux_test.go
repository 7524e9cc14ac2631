package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// lingers is what ibrun prints when the metrics of a job that has ended wait for a scrape.
const lingers = "the metrics stay until they are scraped"

// awaitLinger waits until n nodes print that their metrics wait for a scrape.
func (p *process) awaitLinger(n int) {
	p.t.Helper()
	p.eventually("the metrics do not wait", func() bool { return strings.Count(p.stderrText(), lingers) == n })
}

// TestMetricsLinger: the metrics of a job that was scraped stay until a scrape has read the exit code.
func TestMetricsLinger(t *testing.T) {
	t.Parallel()
	p := startJob(t, 2, "-n", "2", "--metrics", ":0", "rank", "record")
	for range 2 {
		text, err := getSlowly(p.metricsAt())
		if err != nil || strings.Contains(text, "ibrun_job_exit_code") {
			t.Errorf("%v; a job that runs has an exit code:\n%s", err, text)
		}
	}
	p.signal(p.pids[1], syscall.SIGKILL)
	p.awaitLinger(1)
	text, err := getSlowly(p.metricsAt())
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"ibrun_job_exit_code 137", `ibrun_ranks{state="dead"} 2`, `ibrun_calls_total{op="Send"} 200`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	p.wantCode(137, "was killed by signal 9")
	p.wantNoProcesses()
}

// TestMetricsDoNotLinger: the metrics of a job that nobody has scraped do not outlast it, and neither do those of a job that its
// user has ended, or for which the user does not want it.
func TestMetricsDoNotLinger(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags   []string
		scraped bool
		kill    syscall.Signal // of a rank; 0: SIGINT to ibrun
		code    int
	}{
		"never scraped":      {nil, false, syscall.SIGKILL, 137},
		"ended by its user":  {nil, true, 0, 130},
		"--metrics-linger 0": {[]string{"--metrics-linger", "0"}, true, syscall.SIGKILL, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startJob(t, 2, append(append([]string{"-n", "2", "--metrics", ":0"}, c.flags...), "rank", "record")...)
			at := p.metricsAt()
			if c.scraped {
				p.scrape()
			}
			if c.kill != 0 {
				p.signal(p.pids[1], c.kill)
			} else {
				p.signal(p.cmd.Process.Pid, syscall.SIGINT)
			}
			p.wantCodeOnly(c.code)
			if strings.Contains(p.stderrText(), lingers) {
				t.Errorf("the metrics waited: %s", p.stderrText())
			}
			if _, err := get(at); err == nil {
				t.Error("the endpoint has outlasted ibrun")
			}
		})
	}
}

// TestMetricsLingerSignal: a signal ends the wait, and the exit code is that of the job.
func TestMetricsLingerSignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := startJob(t, 1, "-n", "1", "--metrics", ":0", "--metrics-linger", "1h", "rank", "record", "leave")
		p.awaitLinger(1)

		p.signal(p.cmd.Process.Pid, sig)
		p.wantCode(0, "")
	}
}

// TestMetricsLingerNodes: the metrics of every node wait for a scrape of their own, also on nodes that ibrun has started itself.
func TestMetricsLingerNodes(t *testing.T) {
	t.Parallel()
	p := startCommand(t, 2, startOn(t, direct, "h0:1,b:1", "--metrics", ":0", "rank", "record"))
	endpoints := func() (all []string) {
		for _, m := range regexp.MustCompile(`metrics are at (\S+)\n`).FindAllStringSubmatch(p.stderrText(), -1) {
			all = append(all, m[1])
		}
		return all
	}
	p.eventually("no two addresses are printed", func() bool { return len(endpoints()) == 2 })
	for _, at := range append(endpoints(), endpoints()...) { // twice, see getSlowly
		if _, err := getSlowly(at); err != nil {
			t.Fatal(err)
		}
	}
	p.signal(p.pids[0], syscall.SIGKILL)
	p.awaitLinger(1) // that of node 0; the other node may not know the end of the job yet
	for _, at := range endpoints() {
		p.eventually("a node has no exit code", func() bool {
			text, err := getSlowly(at)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(text, "ibrun_job_exit_code 137\n") && strings.Contains(text, `ibrun_ranks{state="dead"} 1`)
		})
	}
	p.wantCode(137, "was killed by signal 9")
	p.wantNoProcesses()
}
