package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/job"
	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/perf"
)

// record writes what a rank that has sent a hundred messages of eight bytes would have, and sleeps.
func record() error {
	_, hello, err := job.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if hello == nil || hello.Page == nil {
		return errors.New("ibrun has given no page")
	}
	seg, err := shm.Open(hello.Page.FD)
	if err != nil {
		return err
	}
	memory, err := seg.Map(hello.Page.Offset, hello.Page.Bytes)
	if err != nil {
		return err
	}
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: hello.Rank, Size: hello.Size, PID: os.Getpid()}, perf.On)
	if err != nil {
		return err
	}
	for range 100 {
		r.End(perf.Send, 8, r.Begin(perf.Send, 8))
	}
	fmt.Println("ready", os.Getpid())
	select {}
}

// scrape returns the metrics of a job, by the address that it has told.
func (p *process) scrape() string {
	p.t.Helper()
	at := regexp.MustCompile(`metrics are at (\S+)`).FindStringSubmatch(p.said())
	if at == nil {
		p.t.Fatalf("no address in %s", p.said())
	}
	r, err := http.Get(at[1])
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// TestMetrics: what ranks have recorded is served while they run, also when one of them is stopped.
func TestMetrics(t *testing.T) {
	discovery := filepath.Join(t.TempDir(), "ibrun.json")
	p := startJob(t, 3, "-n", "3", "--metrics", ":0", "--metrics-sd", discovery, "rank", "record")
	p.signal(p.pids[1], syscall.SIGSTOP)
	text := p.scrape()
	for _, want := range []string{`ibrun_ranks{state="running"} 3`, `ibrun_calls_total{op="Send"} 300`,
		`ibrun_operation_seconds_count{op="Send",size="64"} `} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if _, err := os.Stat(discovery); err != nil {
		t.Error(err)
	}
	p.signal(p.pids[1], syscall.SIGCONT)
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.wait()
	if _, err := os.Stat(discovery); !os.IsNotExist(err) {
		t.Errorf("the discovery file is still there: %v", err)
	}
}

// TestMetricsInUse: the job runs without metrics when their address is taken, and says so once.
func TestMetricsInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := startJob(t, 2, "-n", "2", "--metrics", l.Addr().String(), "rank", "record")
	if said := p.said(); strings.Count(said, "no metrics of this job") != 1 || !strings.Contains(said, "address already in use") {
		t.Errorf("ibrun said %q", said)
	}
}

// stream sends blocks of 64 KiB from rank 0 to rank 1 for a time, tells how many, and sleeps.
func stream(limit string) error {
	const window = 16
	d, err := time.ParseDuration(limit)
	if err != nil {
		return err
	}
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid())
	w, block, more := p.World(), make([]byte, 64<<10), []byte{1}
	sent := 0
	for end := time.Now().Add(d); more[0] != 0; {
		if w.Rank() == 0 && time.Now().After(end) {
			more[0] = 0
		}
		if err := mpi.Bcast(w, more, 0); err != nil {
			return err
		}
		for range window {
			if w.Rank() == 0 {
				err = mpi.Send(w, block, 1, 1)
			} else {
				_, err = mpi.Recv(w, block, 0, 1)
			}
			if err != nil {
				return err
			}
			sent++
		}
	}
	fmt.Println("moved", sent)
	napForEver()
	return nil
}

// TestManyScrapes: a thousand scrapes while messages stream lose no count. IBRUN_SOAK=1 streams for a minute.
func TestManyScrapes(t *testing.T) {
	const scrapes = 1000
	limit := 2 * time.Second
	if os.Getenv("IBRUN_SOAK") != "" {
		limit = time.Minute
	}
	p := startJob(t, 2, "-n", "2", "--metrics", ":0", "rank", "stream", limit.String())
	number := func(text, name string) (n uint64) {
		found := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
		if found == nil {
			return 0 // none yet
		}
		v, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(v)
	}
	counters := []string{`ibrun_calls_total{op="Send"}`, `ibrun_calls_total{op="Recv"}`, `ibrun_operation_bytes_total{op="Send"}`,
		`ibrun_operation_seconds_count{op="Send",size="256Ki"}`}
	last := make([]uint64, len(counters))
	for range scrapes {
		time.Sleep(limit / scrapes)
		text := p.scrape()
		for i, name := range counters {
			n := number(text, name)
			if n < last[i] {
				t.Fatalf("%s was %d and is %d", name, last[i], n)
			}
			last[i] = n
		}
	}
	var moved uint64
	for range 2 {
		if _, err := fmt.Sscanf(p.line(), "moved %d\n", &moved); err != nil {
			t.Fatal(err)
		}
	}
	text := p.scrape()
	for i, want := range []uint64{moved, moved, moved * 64 << 10, moved} {
		if n := number(text, counters[i]); n != want || want == 0 {
			t.Errorf("%s is %d, want %d", counters[i], n, want)
		}
	}
}
