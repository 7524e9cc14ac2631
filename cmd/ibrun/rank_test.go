package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// rank is the program that the tests start under ibrun. Its first argument says what it does. It returns its exit code.
func rank(args []string) int {
	var err error
	switch args[0] {
	case "exit": // CODE [RANK]: all ranks exit, or only one while the others wait for ever
		return exitCode(args[1:])
	case "panic":
		panic("out of luck")
	case "kill": // SIGNAL: kills itself
		var sig int
		if sig, err = strconv.Atoi(args[1]); err == nil {
			err = syscall.Kill(os.Getpid(), syscall.Signal(sig))
		}
	case "sleep": // for ever, after printing that it is ready
		fmt.Println("ready", os.Getpid(), os.Getenv("PMI_JOBID"))
		select {}
	case "orphan": // starts a process in a session of its own, and sleeps or, with an argument, exits
		err = orphan(args[1:])
	case "mistake": // NAME: see mistakes
		err = mistake(args[1])
	case "flood": // BYTES
		err = flood(args[1])
	case "copy":
		_, err = io.Copy(os.Stdout, os.Stdin)
	case "cores":
		var allowed []int
		allowed, err = hw.Affinity()
		fmt.Println("cores", hw.FormatList(allowed), "GOMAXPROCS", runtime.GOMAXPROCS(0))
	case "lead": // FIFO: fails while another rank reads from it
		if _, err = os.OpenFile(args[1], os.O_WRONLY, 0); err == nil {
			return 3
		}
	case "follow": // FIFO: fails as soon as rank "lead" has exited
		if _, err = os.ReadFile(args[1]); err == nil {
			return 4
		}
	case "abort-after": // FIFO: aborts as soon as rank "lead" has exited
		err = abortAfter(args[1])
	case "pass-stdout": // SOCKET: passes its standard output to the process that listens there
		err = passStdout(args[1])
	case "hear-left":
		err = hearLeft()
	case "hello":
		err = hello()
	case "other-version": // the first message on the link has another version
		err = otherVersion()
	case "hang": // WHAT
		err = hang(args[1])
	case "work", "traffic", "eat", "exchange":
		err = runLong(args)
	case "stream": // FIFO: sends as many messages as possible until it is closed, then sleeps
		err = stream(args[1])
	case "record": // [HOW]: records a hundred messages, then sleeps
		err = record(args[1:])
	case "talk": // TIME: sends messages and computes
		err = talk(args[1:])
	case "checked": // FIFO [idle]: exchanges messages and checks them until the FIFO is closed
		err = checked(args[1:])
	case "sum": // [HOW]: adds the numbers of the ranks
		err = sum(args[1:])
	case "whisper": // MESSAGE: sends it to all others
		err = whisper(args[1])
	default:
		err = rankForSignals(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// rankForSignals is the part of rank for signals, for ends of ranks, and for what PMI does.
func rankForSignals(args []string) (err error) {
	switch args[0] {
	case "patient": // exits on SIGINT and SIGTERM
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR2)
		fmt.Println("ready", os.Getpid())
		fmt.Println("received", <-asked)
	case "stubborn": // ignores them
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		fmt.Println("ready", os.Getpid())
		select {}
	case "farewell": // prints something a while after SIGTERM
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("ready", os.Getpid())
		<-asked
		time.Sleep(200 * time.Millisecond)
		fmt.Println("farewell")
	case "end", "end-deferred": // HOW: the last rank ends by HOW, while the others wait for it
		err = endBy(args[0], args[1])
	case "brief":
		err = brief()
	case "notify": // HOW: leaves rank 0 after a signal, by "return" or by "finalize"
		err = notify(args[1])
	case "save": // FILE TIME: prints, and creates FILE.RANK that time after SIGHUP or SIGTERM
		err = save(args[1], args[2])
	case "garbage": // TEXT: sends it on PMI_FD, and sleeps
		err = sendGarbage(args[1])
	case "pmi-load": // COUNT: puts that many values of 900 bytes and reads some of the next rank
		err = loadPMI(args[1])
	case "pmi-put": // FIFO RANK: that rank puts twenty values of 700 bytes when the FIFO is closed
		err = putPMI(args[1], args[2])
	default:
		err = usePMI(args)
	}
	return err
}

func save(file, after string) error {
	d, err := time.ParseDuration(after)
	if err != nil {
		return err
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP, syscall.SIGTERM)
	fmt.Println("ready", os.Getpid())
	fmt.Println("received", <-asked)
	for range 10 {
		time.Sleep(d / 10)
		fmt.Println("saving")
	}
	return os.WriteFile(file+"."+os.Getenv("PMI_RANK"), nil, 0o600)
}

func exitCode(args []string) int {
	if len(args) > 1 && args[1] != os.Getenv("PMI_RANK") {
		select {}
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	return n
}

// orphan starts a shell that starts a process behind setsid and exits, so that the process loses its parent.
func orphan(args []string) error {
	cmd := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo orphan $!")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil || len(args) > 0 {
		return err
	}
	fmt.Println("ready", os.Getpid())
	select {}
}

func flood(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	line := strings.Repeat(os.Getenv("PMI_RANK"), 99) + "\n"
	out := bufio.NewWriter(os.Stdout)
	for ; n > 0; n -= len(line) {
		if _, err := out.WriteString(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// abortAfter is ready to abort before rank "lead" can begin to fail.
func abortAfter(fifo string) error {
	c, err := pmi.FromEnv(os.Getenv)
	if err != nil || c == nil {
		return fmt.Errorf("no launcher: %w", err)
	}
	if _, err := os.ReadFile(fifo); err != nil {
		return err
	}
	if err := c.Abort(4, "rank lead has exited"); err != nil {
		return err
	}
	select {}
}

func passStdout(socket string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	_, _, err = c.(*net.UnixConn).WriteMsgUnix([]byte{0}, syscall.UnixRights(1), nil)
	return errors.Join(err, c.Close())
}

func hello() error {
	link, h, err := ranklink.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	fmt.Printf("rank %d of %d, number %d of %v on node %d, agent %v, job %v\n",
		h.Rank, h.Size, h.LocalRank, h.NodeRanks, h.Node, h.AgentPID == os.Getppid(), h.JobID == os.Getenv("PMI_JOBID"))
	return link.Send(ranklink.KindNote, ranklink.Note{Text: "all is well"})
}

// usePMI makes the PMI calls of an MPI program, and exits at the point that args name: "pmi", "pmi abort 7 1", "pmi
// leave-before-init 1". The last number is the rank that does so.
func usePMI(args []string) error {
	does := func(what string) bool {
		return len(args) > 1 && args[1] == what && args[len(args)-1] == os.Getenv("PMI_RANK")
	}
	if does("leave-before-init") {
		return nil
	}
	c, err := pmi.FromEnv(os.Getenv)
	if err != nil || c == nil {
		return fmt.Errorf("no launcher: %w", err)
	}
	if does("leave-before-finalize") {
		return nil
	}
	if does("abort") {
		code, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return c.Abort(code, "no more paper")
	}
	if err := c.Put("key-"+strconv.Itoa(c.Rank()), "value"+os.Getenv("CANARY")); err != nil {
		return err
	}
	if err := c.Barrier(context.Background()); err != nil {
		return err
	}
	if _, err := c.Get("key-" + strconv.Itoa((c.Rank()+1)%c.Size())); err != nil {
		return err
	}
	fmt.Printf("rank %d of %d\n", c.Rank(), c.Size())
	return c.Finalize()
}

// loadPMI puts many values, and reads some of those of the next rank after a barrier.
func loadPMI(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	c, err := pmi.FromEnv(os.Getenv)
	if err != nil || c == nil {
		return fmt.Errorf("no launcher: %w", err)
	}
	value := func(rank int) string { return strings.Repeat(strconv.Itoa(rank%10), 900) }
	for i := range n {
		if err := c.Put(fmt.Sprintf("key-%d-%d", c.Rank(), i), value(c.Rank())); err != nil {
			return err
		}
	}
	if err := c.Barrier(context.Background()); err != nil {
		return err
	}
	next := (c.Rank() + 1) % c.Size()
	for i := 0; i < n; i += 20 {
		got, err := c.Get(fmt.Sprintf("key-%d-%d", next, i))
		if err != nil || got != value(next) {
			return fmt.Errorf("value %d of rank %d is %.20q, %w", i, next, got, err)
		}
	}
	return c.Finalize()
}

// whenClosed returns a channel that is closed when no process has the FIFO open for writing any more.
func whenClosed(fifo string) (<-chan struct{}, error) {
	f, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not wait until it is open for writing
	if err != nil {
		return nil, err
	}
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, f) // nothing is written
		f.Close()
		close(closed)
	}()
	return closed, nil
}

// putPMI is a PMI program of two ranks, which have no connection to each other. When a FIFO is closed, the rank of that number
// puts values that do not fit into one packet. Both wait for all values.
func putPMI(fifo, putter string) error {
	c, err := pmi.FromEnv(os.Getenv)
	if err != nil || c == nil {
		return fmt.Errorf("no launcher: %w", err)
	}
	if err := c.Barrier(context.Background()); err != nil {
		return err
	}
	closed, err := whenClosed(fifo)
	if err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid())
	if strconv.Itoa(c.Rank()) == putter {
		<-closed
		for i := range 20 {
			if err := c.Put("key-"+strconv.Itoa(i), strings.Repeat("v", 700)); err != nil {
				return err
			}
		}
	}
	if err := c.Barrier(context.Background()); err != nil {
		return err
	}
	return c.Finalize()
}

// sendGarbage sends a line on PMI_FD, and sleeps for ever.
func sendGarbage(text string) error {
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return err
	}
	if _, err := os.NewFile(uintptr(fd), "PMI_FD").WriteString(text + "\n"); err != nil {
		return err
	}
	select {}
}
