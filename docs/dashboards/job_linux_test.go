package dashboards

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/perf/prom"
)

// asRank makes this test binary a rank of the job that is looked at.
const asRank = "IBRUN_DASHBOARDS_RANK"

func TestMain(m *testing.M) {
	if os.Getenv(asRank) != "" {
		if err := busy(); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// busy is a program that does a little of everything until it is ended.
func busy() error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	world := p.World()
	rank, size := world.Rank(), world.Size()
	next, before := (rank+1)%size, (rank+size-1)%size
	small, large, sum := make([]byte, 64), make([]byte, 256<<10), make([]float64, 1)
	for round := 0; ; round++ {
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

// startJob starts four ranks and returns the file that says where their metrics are.
func startJob(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ibrun, discovery := filepath.Join(dir, "ibrun"), filepath.Join(dir, "job.json")
	if out, err := exec.Command("go", "build", "-o", ibrun, "../../cmd/ibrun").CombinedOutput(); err != nil {
		t.Fatalf("build ibrun: %v\n%s", err, out)
	}
	start(t, exec.Command(ibrun, "-n", "4", "-x", asRank+"=1", "--metrics", ":0", "--metrics-sd", discovery, self))
	waitFor(t, "the job's endpoint", func() error {
		_, err := os.Stat(discovery)
		return err
	})
	return discovery
}

// startPorts serves the RDMA ports of a machine that has some, and returns the file that says where.
func startPorts(t *testing.T, dir string) string {
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
	text := fmt.Sprintf(`[{"targets": [%q], "labels": {"job_id": "other", "node": "n1"}}]`, l.Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
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

// start starts a program that the end of the test ends.
func start(t *testing.T, c *exec.Cmd) {
	t.Helper()
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(os.Interrupt)
		ended := make(chan struct{})
		go func() {
			c.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			c.Process.Kill()
			<-ended
			t.Errorf("%s did not end", c.Path)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", c.Path, out.String())
		}
	})
}

// patience is how long anything may take that should take a second.
const patience = 30 * time.Second

// waitFor tries until there is no error.
func waitFor(t *testing.T, what string, try func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}
