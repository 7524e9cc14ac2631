package benchcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/bench/perftest"
	"github.com/ibrun/ibrun/internal/benchreference"
	"github.com/ibrun/ibrun/verbs"
)

// fakeSide is the name under which this test binary acts as a reference program. Under the name of a
// program of perftest it acts as that program.
const fakeSide = "fake-reference"

// failVariable selects the program that fails.
const failVariable = "BENCHCMD_TEST_FAIL"

// runFakeProgram acts as either. The figures are 10 for perftest, 4 for the provider rxe and 20 for libibverbs.
func runFakeProgram(name string, args []string) int {
	f := fakePerftest
	if name == fakeSide {
		f = fakeOurs
	}
	if err := f(name, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

// fakePerftest takes -F -d DEVICE -s SIZE -n ITERATIONS -p PORT [ADDRESS].
func fakePerftest(name string, args []string) error {
	failing := os.Getenv(failVariable)
	size, n, port := args[4], args[6], args[8]
	if len(args) == 9 {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		conn, err := l.Accept()
		if err == nil && failing != "server" {
			_, err = io.Copy(io.Discard, conn)
		} else {
			err = errors.New("the server is out of order")
		}
		return err
	}
	conn, err := net.Dial("tcp", args[9]+":"+port)
	if err != nil {
		return err
	}
	defer conn.Close()
	switch failing {
	case "server":
		io.Copy(io.Discard, conn)
		select {} // until it is killed
	case "client":
		return errors.New("the client is out of order")
	}
	fmt.Print(" TX depth        : 7\n CQ Moderation   : 5\n Mtu             : 1024[B]\n Max inline data : 16[B]\n")
	rule := strings.Repeat("-", 87)
	if strings.HasSuffix(name, "_bw") {
		const ten = "9.5367431640625" // MiB
		fmt.Printf(" #bytes #iterations    BW peak[MB/sec]    BW average[MB/sec]\n %s %s 99 %s\n%s\n", size, n, ten, rule)
		return nil
	}
	fmt.Printf(" #bytes #iterations    t_typical[usec]    99%% percentile[usec]\n %s %s 10 99\n%s\n", size, n, rule)
	return nil
}

// fakeOurs takes verbs ROLE TEST.
func fakeOurs(_ string, args []string) error {
	var t perftest.Test
	if err := json.Unmarshal([]byte(args[2]), &t); err != nil {
		return err
	}
	if t.Depth != 7 || t.MTU != 1024 || t.Inline != 16 || t.Iterations < minIterations || t.Device != "fake0" {
		return fmt.Errorf("the test is %+v", t)
	}
	if os.Getenv(failVariable) == "ours" {
		return errors.New("ours is out of order")
	}
	if _, err := fmt.Fprintln(os.NewFile(benchreference.WriteFD, "to the peer"), args[1]); err != nil {
		return err
	}
	var peer string
	_, err := fmt.Fscanln(os.NewFile(benchreference.ReadFD, "from the peer"), &peer)
	if err != nil || peer == args[1] || args[1] == "server" {
		return err
	}
	fmt.Println(map[string]int{"rxe": 4, "libibverbs": 20}[t.Provider])
	return nil
}

// callVerbs runs `ibrun bench verbs args...` with those programs of perftest in the PATH and a device that opens.
func callVerbs(t *testing.T, open func(device, provider string) (string, error), programs []string, args ...string) callResult {
	t.Helper()
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(programs, fakeSide) {
		if err := os.Symlink(exe, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	var stdout, stderr bytes.Buffer
	c := command{args: append([]string{"verbs"}, args...), stdout: &stdout, stderr: &stderr, open: open,
		env: append(os.Environ(), "IBRUN_BENCH_REFERENCE="+filepath.Join(dir, fakeSide))}
	code := c.run(context.Background())
	return callResult{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

func opens(device, _ string) (string, error) { return "fake0", nil }

// TestVerbsJSON: the lines are those of versus with the provider; ours uses the settings and the iterations of perftest.
func TestVerbsJSON(t *testing.T) {
	out := callVerbs(t, opens, []string{"ib_send_lat", "ib_write_bw"}, "--json", "--op", "send_lat,write_bw", "--size", "64K",
		"--rounds", "2")
	if out.code != 0 {
		t.Fatalf("exit %d\n%s", out.code, out.stderr)
	}
	compared := func(op string, unit bench.Unit, ours, ratio float64, provider string) line {
		return line{Op: op, Ranks: 2, Size: 65536, Unit: unit, Ours: ours, Peer: 10, PeerName: "perftest", Ratio: ratio,
			Provider: provider}
	}
	want := []line{
		compared("send_lat", "us", 4, 2.5, "rxe"),
		compared("send_lat", "us", 20, 0.5, "libibverbs"),
		compared("write_bw", "MB/s", 4, 0.4, "rxe"),
		compared("write_bw", "MB/s", 20, 2, "libibverbs"),
	}
	var got []line
	for text := range strings.Lines(out.stdout) {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		var l line
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got = append(got, l)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestVerbsTable(t *testing.T) {
	out := callVerbs(t, opens, []string{"ib_read_lat"}, "--op", "read_lat", "--rounds", "1", "--provider", "libibverbs",
		"--iterations", "30")
	rows := strings.Split(strings.TrimSpace(out.stdout), "\n")
	want := []string{"read_lat", "2", "8", "B", "us", "20.00", "10.00", "perftest", "0.50", "libibverbs"}
	if out.code != 0 || len(rows) != 2 || !slices.Equal(strings.Fields(rows[1]), want) {
		t.Errorf("exit %d\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	for _, words := range []string{"ib_read_lat -F -d fake0 -s 8 -n 30 -p", "0.50 geometric mean", "device fake0"} {
		if !strings.Contains(out.stderr, words) {
			t.Errorf("stderr lacks %q:\n%s", words, out.stderr)
		}
	}
}

// TestVerbsLeavesOut: a provider that does not have the device is left out, unless it was asked for by name.
func TestVerbsLeavesOut(t *testing.T) {
	open := func(device, provider string) (string, error) {
		if provider == "rxe" {
			return "", &verbs.Error{Op: "open", Kind: verbs.ErrNotSupported, Detail: "Soft-RoCE only"}
		}
		return "fake0", nil
	}
	out := callVerbs(t, open, []string{"ib_send_lat"}, "--json", "--op", "send_lat", "--rounds", "1")
	if out.code != 0 || strings.Count(out.stdout, "\n") != 1 || !strings.Contains(out.stderr, "rxe is left out: ") {
		t.Errorf("exit %d\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	out = callVerbs(t, open, []string{"ib_send_lat"}, "--op", "send_lat", "--provider", "rxe")
	if out.code != exitFailed || !strings.Contains(out.stderr, "Soft-RoCE only") {
		t.Errorf("exit %d\n%s", out.code, out.stderr)
	}
}

// TestVerbsFails: missing programs and failures are errors, and the process ends in time.
func TestVerbsFails(t *testing.T) {
	none := func(string, string) (string, error) { return openDevice("no-such-device", "") }
	lat := []string{"ib_send_lat"}
	for name, c := range map[string]struct {
		open     func(device, provider string) (string, error)
		programs []string
		failing  string
		words    string
		code     int
		says     string
	}{
		"no perftest":  {opens, nil, "", "", exitFailed, "ib_send_lat is not installed; install it: apt-get install perftest"},
		"no device":    {none, lat, "", "--op send_lat", exitFailed, "no-such-device"},
		"operation":    {opens, lat, "", "--op send", exitUsage, "send_lat"},
		"provider":     {opens, lat, "", "--provider mlx5", exitUsage, "rxe, libibverbs"},
		"size":         {opens, lat, "", "--op atomic_lat --size 64", exitUsage, "atomic_lat has no point"},
		"rounds":       {opens, lat, "", "--rounds 0", exitUsage, "--rounds"},
		"iterations":   {opens, lat, "", "--iterations 4", exitUsage, "--iterations"},
		"a word":       {opens, lat, "", "fast", exitUsage, "unexpected word"},
		"reference":    {opens, lat, "", "--op send_lat --reference nowhere", exitUsage, "--reference nowhere"},
		"server fails": {opens, lat, "server", "--op send_lat", exitFailed, "the server is out of order"},
		"client fails": {opens, lat, "client", "--op send_lat", exitFailed, "the client is out of order"},
		"ours fails":   {opens, lat, "ours", "--op send_lat", exitFailed, "ours is out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(failVariable, c.failing)
			out := callVerbs(t, c.open, c.programs, strings.Fields(c.words)...)
			if out.code != c.code || !strings.Contains(out.stderr, c.says) || out.stdout != "" {
				t.Errorf("exit %d, want %d with %q\n%s\n%s", out.code, c.code, c.says, out.stdout, out.stderr)
			}
		})
	}
}

func TestListens(t *testing.T) {
	const table = "  sl  local_address rem_address   st tx_queue\n" +
		"   0: 00000000:4855 00000000:0000 0A 00000000:00000000\n" +
		"   1: 0100007F:4856 0100007F:4855 01 00000000:00000000\n   2: 01"
	for port, want := range map[int]bool{0x4855: true, 0x4856: false, 0: false, 0x55: false} {
		if got := listens(table, port); got != want {
			t.Errorf("port %#x: %v, want %v", port, got, want)
		}
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := untilListening(t.Context(), l.Addr().(*net.TCPAddr).Port); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := untilListening(gone, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting with a cancelled context: %v", err)
	}
}
