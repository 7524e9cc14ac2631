package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/cgroup"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// strangersPerSecond returns how many connections strangers make. A handshake that takes longer than half a second may have to
// give way to one of a thousand. Without IBRUN_SOAK the machine may be too busy for that.
func strangersPerSecond() time.Duration { return soaktest.Choose[time.Duration](1000, 200) }

// maxStrangerConns is how many of them stay open.
const maxStrangerConns = 3000

// recordedRequest is what a node of another job has sent to node 0.
const recordedRequest = "\x00\x00\x00\x01\x00\x00\x00\x02"

// strangerTexts returns what strangers send: nothing, garbage, the beginning of a request, a whole recorded one with a wrong
// proof, HTTP, and the beginning of TLS.
func strangerTexts() []string {
	record := "ibrun/n\x03" + recordedRequest + strings.Repeat("\x07", 100)
	hello, _ := hex.DecodeString("16030100c8010000c40303")
	return []string{"", strings.Repeat("\xff\x00garbage", 40), "ibrun/n", "i", record, record[:30],
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 500), string(hello), "ibrun-tcp" + strings.Repeat("\x00", 200)}
}

// nobody is the user as which strangers run, if that is possible.
const nobody = 65534

// visitor is a process that knows no secret, and belongs to another user if it was started by root.
type visitor struct {
	mu      sync.Mutex
	learned sync.Cond // tcp
	tcp     []string
	unix    []string

	tried, connected atomic.Int64 // TCP connections
	another          bool         // the process is one of another user than the job
	entered          atomic.Int64 // connections to Unix sockets, which no other user may use
	active           atomic.Int64 // nanoseconds with an address to connect to
}

// strangers is the main program of a visitor. It connects to the addresses that it reads from its input, a line each, in turn,
// until the input ends. A line with a minus sign removes all addresses. At the end it prints how often it has tried and
// connected, to how many Unix sockets, and the nanoseconds that this took.
func strangers() int {
	var v visitor
	if os.Getuid() == 0 {
		v.another = true
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	v.learned.L = &v.mu
	slots := make(chan int)
	open := make(chan net.Conn, maxStrangerConns)
	for range 16 { // a connection may have to wait for a place
		go func() {
			for n := range slots {
				v.visit(n, open)
			}
		}()
	}
	go v.pace(slots)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		v.learn(in.Text())
	}
	fmt.Println(v.tried.Load(), v.connected.Load(), v.entered.Load(), v.active.Load())
	return 0
}

// learn adds the address of a line of input.
func (v *visitor) learn(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	path, isUnix := strings.CutPrefix(line, "unix ")
	switch {
	case line == "-":
		v.tcp, v.unix = nil, nil
	case isUnix:
		v.unix = append(v.unix, path)
	default:
		v.tcp = append(v.tcp, line)
		v.learned.Signal()
	}
}

// knows reports whether there are addresses.
func (v *visitor) knows() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.tcp) > 0
}

// pace sends the number of the next connection strangersPerSecond times a second, while there are addresses.
func (v *visitor) pace(slots chan<- int) {
	for {
		v.mu.Lock()
		for len(v.tcp) == 0 {
			v.learned.Wait()
		}
		v.mu.Unlock()
		began := time.Now()
		last := began
		for n := 0; v.knows(); n++ {
			// What was missed while other processes ran is made up for.
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / strangersPerSecond())))
			now := time.Now()
			v.active.Add(int64(now.Sub(last)))
			last = now
			slots <- n
		}
	}
}

// visit makes a connection, and keeps it open for a while.
func (v *visitor) visit(n int, open chan net.Conn) {
	v.mu.Lock()
	if len(v.tcp) == 0 {
		v.mu.Unlock()
		return
	}
	addrs, path := v.tcp, ""
	if len(v.unix) > 0 && n%10 == 0 {
		path = v.unix[n/10%len(v.unix)]
	}
	v.mu.Unlock()
	if path != "" && v.another {
		if c, err := net.Dial("unix", path); err == nil {
			v.entered.Add(1)
			c.Close()
		}
	}
	var c net.Conn
	for i := range addrs { // those of processes that have ended, or do not listen yet, refuse
		var err error
		if c, err = net.DialTimeout("tcp", addrs[(n+i)%len(addrs)], 100*time.Millisecond); err == nil {
			break
		}
	}
	v.tried.Add(1)
	if c == nil {
		return
	}
	v.connected.Add(1)
	texts := strangerTexts()
	io.WriteString(c, texts[n/7%len(texts)]) // a new connection has room for it
	for {
		select {
		case open <- c:
			return
		default:
			(<-open).Close()
		}
	}
}

// strangerProcess is a running process of strangers.
type strangerProcess struct {
	input io.WriteCloser
	known map[string]bool
}

func startStrangers(t *testing.T) *strangerProcess {
	t.Helper()
	cmd := exec.Command("strangers")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, os.Stderr
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	how, remove := limitProcess(t, cmd.Process.Pid)
	t.Cleanup(func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		remove()
		var tried, connected, entered, active int64
		if _, err := fmt.Sscan(output.String(), &tried, &connected, &entered, &active); err != nil {
			t.Errorf("strangers wrote %q: %v", output.String(), err)
		}
		seconds := time.Duration(active).Seconds()
		t.Logf("strangers, %s, tried %.0f times a second and connected %.0f times, %d in all", how, float64(tried)/seconds,
			float64(connected)/seconds, connected)
		if entered > 0 {
			t.Errorf("another user could connect to Unix sockets %d times", entered)
		}
	})
	return &strangerProcess{input: input, known: map[string]bool{}}
}

// limitProcess gives a process 70 % of a processor, and no more: it neither waits for the job nor takes its time. Where no
// control group can be made, it gives it the lowest priority. It returns what it did. The caller must call remove when the
// process has ended.
func limitProcess(t *testing.T, pid int) (how string, remove func()) {
	t.Helper()
	self := cgroup.Self()
	name := fmt.Sprintf("ibrun-test-%d", pid)
	v1, is1 := self.Controller("cpu")
	v2, _ := self.Unified()
	for _, g := range []struct {
		dir   string
		files [][2]string
	}{
		{filepath.Join(v1.Path, name), [][2]string{{"cpu.cfs_period_us", "10000"}, {"cpu.cfs_quota_us", "7000"},
			{"cpu.shares", "8192"}}},
		{filepath.Join(v2.Path, name), [][2]string{{"cpu.max", "7000 10000"}, {"cpu.weight", "800"}}},
	} {
		if !is1 && g.files[0][0] != "cpu.max" || !filepath.IsAbs(g.dir) || os.Mkdir(g.dir, 0o755) != nil {
			continue
		}
		var err error
		for _, f := range append(g.files, [2]string{"cgroup.procs", strconv.Itoa(pid)}) {
			err = errors.Join(err, writeExisting(filepath.Join(g.dir, f[0]), f[1]))
		}
		if err == nil {
			return "with 70 % of a processor", func() {
				if err := os.Remove(g.dir); err != nil {
					t.Error(err)
				}
			}
		}
		os.Remove(g.dir)
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, pid, 19); err != nil {
		t.Fatal(err)
	}
	return "with the lowest priority", func() {}
}

// writeExisting writes to a file of the kernel.
func writeExisting(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// visit makes the strangers connect to an address.
func (s *strangerProcess) visit(addr string) {
	if !s.known[addr] {
		s.known[addr] = true
		fmt.Fprintln(s.input, addr)
	}
}

// leave makes the strangers forget all addresses.
func (s *strangerProcess) leave() {
	fmt.Fprintln(s.input, "-")
	clear(s.known)
}

// visitAll makes the strangers connect to everything that processes of the job listen at now.
func (s *strangerProcess) visitAll(job []*process) {
	for _, p := range job {
		for _, l := range p.listeners() {
			if addr, ok := tcpAddress(l); ok {
				s.visit(addr)
			} else if strings.HasPrefix(l, "unix ") {
				s.visit(l)
			}
		}
	}
}

// tcpAddress returns the address of a line of listeners that strangers on this machine can connect to.
func tcpAddress(listener string) (string, bool) {
	family, hexAddr, _ := strings.Cut(listener, " ")
	host, hexPort, _ := strings.Cut(hexAddr, ":")
	port, err := strconv.ParseUint(hexPort, 16, 16)
	if err != nil {
		return "", false
	}
	switch {
	case family == "tcp6":
		return fmt.Sprintf("[::1]:%d", port), host == strings.Repeat("0", 32) || strings.HasSuffix(host, "01000000")
	case host == "00000000":
		return fmt.Sprintf("127.0.0.1:%d", port), true
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 {
		return "", false
	}
	return fmt.Sprintf("%d.%d.%d.%d:%d", b[3], b[2], b[1], b[0], port), true
}

// TestStrangers: strangers that connect many times a second to everything that listens, from before the start until after the
// end, do not make a job fail. They have a part of a processor of their own. They are another user if root runs the test, and
// cannot connect to any Unix socket of the job.
func TestStrangers(t *testing.T) {
	t.Parallel()
	const listeners = 8 // two ports of the ibruns, one of each rank, one of the metrics, and three Unix sockets
	s := startStrangers(t)
	for i := range soaktest.Choose(50, 1) {
		ns, fifo := newNodes(t, 2), openFIFO(t)
		s.visit(ns.addr)
		for k, metrics := range []string{"0", t.TempDir() + "/metrics.sock"} {
			ns.list[k] = startCommand(t, 0, ns.command(k, "--heartbeat", "15s", "--transport", "tcp", "--metrics", metrics, "-n", "2",
				"rank", "checked", fifo.Name()))
		}
		waittest.UntilNil(t, "the strangers find all that listens", func() error {
			if s.visitAll(ns.list); len(s.known) < listeners {
				return fmt.Errorf("they know only %d: %v; ibrun wrote %q", len(s.known), s.known, ns.list[0].stderrText())
			}
			return nil
		})
		for _, p := range ns.list {
			p.ready(1)
		}
		s.visitAll(ns.list)
		waittest.Elapse(t, soaktest.Choose(2*time.Second, 300*time.Millisecond), "strangers connect while messages are exchanged")
		fifo.Close()
		for k, p := range ns.list {
			if code := p.wait(); code != 0 {
				t.Errorf("job %d: exit code %d of node %d:\n%s", i, code, k, p.stderrText())
			}
		}
		s.leave()
	}
}
