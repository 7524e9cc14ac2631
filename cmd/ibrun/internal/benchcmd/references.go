package benchcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/bench/perftest"
	"github.com/ibrun/ibrun/bench/sockets"
	"github.com/ibrun/ibrun/internal/benchreference"
	"github.com/ibrun/ibrun/internal/freeport"
	"github.com/ibrun/ibrun/internal/transports"
)

// reference is a reference implementation without MPI. It moves bytes between two processes and shows what the transport itself
// can do.
type reference struct {
	name       string
	transport  string
	packages   string // of Debian and Ubuntu; empty if it is the reference program of ibrun
	programs   []string
	ops        []string
	newSubject func(c *command, ctx context.Context, b *programBuild) (*subject, error)
}

// references returns all known reference implementations.
func references() []reference {
	return []reference{
		{name: "sockets", transport: transports.TCP.String(), ops: sockets.Ops(), newSubject: (*command).socketsSubject},
		{name: "iperf3", transport: transports.TCP.String(), packages: "iperf3", programs: []string{"iperf3"}, ops: []string{"bw"},
			newSubject: (*command).iperfSubject},
		{name: "perftest", transport: transports.RDMA.String(), packages: "perftest", programs: []string{"ib_send_lat", "ib_write_bw"},
			ops: []string{"latency", "bw"}, newSubject: (*command).perftestSubject},
	}
}

// missingPackages returns the packages that must be installed, or an empty string.
func (r reference) missingPackages() string {
	for _, p := range r.programs {
		if _, err := exec.LookPath(p); err != nil {
			return r.packages
		}
	}
	return ""
}

// programBuild says of which sources, and into which folder, the reference program is built.
type programBuild struct {
	sources programSources
	dir     string
}

// findReferences returns the reference implementations for a transport that are installed or can be
// built: all, or only the named ones.
func (c *command) findReferences(ctx context.Context, named []string, transport string, b *programBuild) ([]*subject, error) {
	var found []*subject
	for _, r := range references() {
		if r.transport != transport || len(named) > 0 && !slices.Contains(named, r.name) {
			continue
		}
		if packages := r.missingPackages(); packages != "" {
			if len(named) > 0 || transport == transports.RDMA.String() { // nothing else to compare with
				return nil, fmt.Errorf("%s is not installed; type: apt-get install %s", r.name, packages)
			}
			c.logf("%s is left out: it is not installed (apt-get install %s)", r.name, packages)
			continue
		}
		p, err := r.newSubject(c, ctx, b)
		if errors.Is(err, errNoReference) && len(named) == 0 {
			c.logf("%s is left out: %v", r.name, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		p.name, p.ops = r.name, r.ops
		found = append(found, p)
	}
	return found, nil
}

// socketsSubject returns the subject that is two processes of the reference program polling two
// sockets.
func (c *command) socketsSubject(ctx context.Context, b *programBuild) (*subject, error) {
	program, err := b.sources.buildReference(ctx, b.dir, c.cleanEnv())
	if err != nil {
		return nil, err
	}
	words := func(role perftest.Role, t sockets.Test) []string {
		return append([]string{program}, benchreference.SocketsWords(role, t)...)
	}
	test := func(j job) sockets.Test {
		return sockets.Test{Op: j.op.Name, Sizes: j.sizes, Time: j.time}
	}
	p := &subject{version: ibrunVersion(), built: "go build", minSize: 1,
		commandLine: func(j job) []string { return words(perftest.Client, test(j)) }}
	p.measure = func(ctx context.Context, j job) (figures map[int]float64, err error) {
		t := test(j)
		if t.Port, err = freeport.TCP(); err != nil {
			return nil, err
		}
		d := processPair{server: words(perftest.Server, t), client: words(perftest.Client, t), environ: c.cleanEnv(),
			bound: true, ready: func(ctx context.Context) error { return untilListening(ctx, t.Port) }}
		out, err := d.run(ctx)
		if err == nil {
			err = json.Unmarshal([]byte(out), &figures)
		}
		return figures, err
	}
	return p, nil
}

// iperfSubject returns iperf3 with a single stream as a subject.
func (c *command) iperfSubject(ctx context.Context, _ *programBuild) (*subject, error) {
	const longest = 1 << 20 // the longest buffer of iperf3
	words := func(size, port int, long time.Duration) []string {
		seconds := max(1, int(long.Round(time.Second)/time.Second))
		return []string{"iperf3", "-c", "127.0.0.1", "-p", strconv.Itoa(port), "-l", strconv.Itoa(min(size, longest)),
			"-t", strconv.Itoa(seconds), "--json"}
	}
	const from = 16 << 10 // figures of shorter messages are not comparable
	p := &subject{version: versionNumber(versionText(ctx, "iperf3")), built: "its package", minSize: from,
		commandLine: func(j job) []string { return words(j.sizes[0], 0, j.time) }}
	p.measure = func(ctx context.Context, j job) (map[int]float64, error) {
		figures := map[int]float64{}
		for _, size := range j.sizes {
			port, err := freeport.TCP()
			if err != nil {
				return nil, err
			}
			d := processPair{server: []string{"iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", strconv.Itoa(port)},
				client: words(size, port, j.time), environ: c.cleanEnv(),
				ready: func(ctx context.Context) error { return untilListening(ctx, port) }}
			out, err := d.run(ctx)
			if err == nil {
				figures[size], err = iperfFigure([]byte(out))
			}
			if err != nil {
				return nil, err
			}
		}
		return figures, nil
	}
	return p, nil
}

// iperfFigure returns the received bandwidth in MB/s from the JSON output of iperf3.
func iperfFigure(text []byte) (float64, error) {
	var r struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, fmt.Errorf("parsing the output of iperf3: %w", err)
	}
	const bits, mega, most = 8, 1e6, 1e15
	if r.End.Received.Rate <= 0 || r.End.Received.Rate > most {
		return 0, fmt.Errorf("iperf3 printed no bandwidth\n%s", tail(text))
	}
	return r.End.Received.Rate / bits / mega, nil
}

// perftestSubject returns the subject with the programs of perftest that are closest to a message: SEND for latency and WRITE for
// bandwidth.
func (c *command) perftestSubject(context.Context, *programBuild) (*subject, error) {
	device, err := c.open("", "")
	if err != nil {
		return nil, err
	}
	lookup := func(op bench.Op) (perftest.Op, error) {
		if op.Name == "latency" {
			return perftest.Lookup("send_lat")
		}
		return perftest.Lookup("write_bw")
	}
	peers := map[string]*perftestRunner{} // by operation and size
	p := &subject{version: "as it is installed", built: "its package", minSize: 1, commandLine: func(j job) []string {
		op, _ := lookup(j.op) // both names exist
		return []string{op.Program(), "-F", "-d", device, "-s", strconv.Itoa(j.sizes[0]), "127.0.0.1"}
	}}
	p.measure = func(ctx context.Context, j job) (map[int]float64, error) {
		op, err := lookup(j.op)
		figures := map[int]float64{}
		for _, size := range j.sizes {
			key := fmt.Sprint(op.Name, " ", size)
			peer := peers[key]
			if err == nil && peer == nil {
				peer = &perftestRunner{device: device, op: op, size: size}
				peers[key] = peer
				err = peer.findIterations(ctx, c, j.time)
			}
			if err == nil {
				figures[size], err = peer.run(ctx, c, false)
			}
			if err != nil {
				return nil, errors.Join(err, ctx.Err())
			}
		}
		return figures, nil
	}
	return p, nil
}
