package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/perf/prom"
)

// asRank makes this test binary a rank of the job that is looked at. Its value is how long ranks pause between rounds.
const asRank = "IBRUN_DASHBOARDS_RANK"

func TestMain(m *testing.M) {
	if text := os.Getenv(asRank); text != "" {
		pause, err := time.ParseDuration(text)
		if err == nil {
			err = busy(pause)
		}
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// busy is a program that does a little of everything until it is ended, with pauses.
func busy(pause time.Duration) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	world := p.World()
	rank, size := world.Rank(), world.Size()
	next, before := (rank+1)%size, (rank+size-1)%size
	small, large, sum := make([]byte, 64), make([]byte, 256<<10), make([]float64, 1)
	for round := 0; ; round++ {
		p.Progress(round, round+1000)
		time.Sleep(pause)
		for _, b := range [][]byte{small, large} {
			r, err := mpi.Isend(world, b, next, 1)
			if err != nil {
				return err
			}
			if rank == round%size {
				time.Sleep(time.Millisecond) // the others wait, and what they sent comes early
			}
			if _, err := mpi.Recv(world, b, before, 1); err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		if err := mpi.Allreduce(world, sum, []float64{1}, mpi.Sum); err != nil {
			return err
		}
		if err := world.Barrier(); err != nil {
			return err
		}
	}
}

// buildIbrun builds the command and returns its path.
func buildIbrun(t *testing.T) string {
	t.Helper()
	ibrun := filepath.Join(t.TempDir(), "ibrun")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", ibrun, "../../cmd/ibrun").CombinedOutput(); err != nil {
		t.Fatalf("build ibrun: %v\n%s", err, out)
	}
	return ibrun
}

// job is a running job.
type job struct {
	at    string // the address of its metrics
	ended chan struct{}
}

// shape returns the number of ranks of a job and their pauses: there is more to see in a picture.
func shape() (ranks int, pause time.Duration) {
	if *draw {
		return 4, 0
	}
	return 2, 20 * time.Millisecond
}

// startJob starts ranks, which run until they are ended. The file says where their metrics are.
func startJob(t *testing.T, ibrun, discovery string) *job {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ranks, pause := shape()
	c := exec.Command(ibrun, "-n", fmt.Sprint(ranks), "-x", asRank+"="+pause.String(), "--metrics", ":0", "--metrics-sd", discovery,
		"--metrics-linger", (waittest.Limit / 2).String(), self) // killRank waits longer
	j := &job{ended: start(t, c)}
	waittest.UntilNil(t, "the job's endpoint", func() error {
		text, err := os.ReadFile(discovery)
		if err != nil {
			return err
		}
		var groups []struct{ Targets []string }
		if err := json.Unmarshal(text, &groups); err != nil {
			return err
		}
		j.at = groups[0].Targets[0]
		return nil
	})
	return j
}

// awaitScrape waits until a Prometheus has scraped the job with all of its ranks, and returns the id of the job.
func (j *job) awaitScrape(t *testing.T, p *prometheus) (id string) {
	t.Helper()
	ranks, _ := shape()
	waittest.UntilNil(t, "a scrape of the job", func() error {
		var data struct{ Result []series }
		query := fmt.Sprintf(`ibrun_ranks{instance=%q,state="running"} == %d`, j.at, ranks)
		if err := p.ask("query", url.Values{"query": {query}}, &data); err != nil {
			return err
		}
		if len(data.Result) != 1 {
			return fmt.Errorf("%d jobs", len(data.Result))
		}
		id = data.Result[0].Metric["ibrun_job"]
		return nil
	})
	return id
}

// killRank kills a rank of the job, which has this id, and waits for the end of the job.
func (j *job) killRank(t *testing.T, id string) {
	t.Helper()
	if err := syscall.Kill(rankOf(t, id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the job ends after the death of a rank", j.ended)
}

// rankOf returns the process of a rank of a job.
func rankOf(t *testing.T, id string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended, or belongs to someone else
		}
		variables := strings.Split(string(text), "\x00")
		if slices.Contains(variables, "PMI_JOBID="+id) && slices.Contains(variables, "PMI_RANK=1") {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatalf("no process of rank 1 of job %s", id)
	return 0
}

// startPorts serves the RDMA ports of a machine that has some, for a Prometheus that reads the files in a folder.
func startPorts(t *testing.T, dir string) {
	t.Helper()
	n := &prom.Node{Job: "other", Name: "n1", Ranks: func() []prom.Rank { return nil },
		Root: growing{hwtest.Tree(t, "../../perf/prom/testdata/port.txtar").(fs.ReadLinkFS), time.Now()}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: n.Handler(log.Default())}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	file := filepath.Join(dir, "ports.json")
	text := fmt.Sprintf(`[{"targets": [%q]}]`, l.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// growing is a machine whose counters grow.
type growing struct {
	fs.ReadLinkFS
	since time.Time
}

func (g growing) Open(name string) (fs.File, error) {
	if !strings.Contains(name, "counters/") {
		return g.ReadLinkFS.Open(name)
	}
	text, err := fs.ReadFile(g.ReadLinkFS, name)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	now := fmt.Sprintln(n * int(1+time.Since(g.since)/time.Millisecond))
	return fstest.MapFS{"now": {Data: []byte(now)}}.Open("now")
}

// start starts a program that the end of the test ends. The channel is closed when it has ended.
func start(t *testing.T, c *exec.Cmd) (ended chan struct{}) {
	t.Helper()
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		c.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		hung := time.AfterFunc(waittest.Limit, func() { c.Process.Kill() })
		if <-ended; !hung.Stop() {
			t.Errorf("%s did not end", c.Path)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", c.Path, out.String())
		}
	})
	return ended
}
