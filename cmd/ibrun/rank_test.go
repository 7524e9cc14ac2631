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

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// rank is what the tests start under ibrun: a program that does what its first word says. It returns its exit code.
func rank(args []string) int {
	var err error
	switch args[0] {
	case "exit": // CODE [RANK]: everybody, or only one while the others wait for ever
		return exitCode(args[1:])
	case "panic":
		panic("out of luck")
	case "kill": // SIGNAL: itself
		var sig int
		if sig, err = strconv.Atoi(args[1]); err == nil {
			err = syscall.Kill(os.Getpid(), syscall.Signal(sig))
		}
	case "sleep": // for ever, once it has said so
		fmt.Println("ready", os.Getpid(), os.Getenv("PMI_JOBID"))
		select {}
	case "orphan": // leaves a process in a session of its own, and sleeps or, with an argument, ends
		err = orphan(args[1:])
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
	case "follow": // FIFO: fails as soon as the one who leads has gone
		if _, err = os.ReadFile(args[1]); err == nil {
			return 4
		}
	case "desert": // FIFO: aborts as soon as the one who leads has gone
		err = desert(args[1])
	case "lend": // SOCKET: hands its standard output to whoever listens there
		err = lend(args[1])
	case "hello":
		err = hello()
	case "hang": // WHAT
		err = hang(args[1])
	case "work":
		err = work()
	case "stream": // TIME: as many messages as go; then sleeps
		err = stream(args[1])
	case "record": // [HOW]: a hundred messages; then sleeps
		err = record(args[1:])
	case "talk": // TIME: sends messages and computes
		err = talk(args[1:])
	case "patient": // ends when it is asked to
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR2)
		fmt.Println("ready", os.Getpid())
		fmt.Println("heard", <-asked)
	case "stubborn": // does not
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM)
		fmt.Println("ready", os.Getpid())
		select {}
	default:
		err = overPMI(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
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

// orphan starts a shell that starts a process behind setsid and ends, so that the process loses its parent.
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

// desert is ready to abort before the one who leads can begin to fail.
func desert(fifo string) error {
	c, err := pmi.FromEnv(os.Getenv)
	if err != nil || c == nil {
		return fmt.Errorf("no launcher: %w", err)
	}
	if _, err := os.ReadFile(fifo); err != nil {
		return err
	}
	if err := c.Abort(4, "the one who leads has gone"); err != nil {
		return err
	}
	select {}
}

func lend(socket string) error {
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

// overPMI does what a program with messages does, and leaves at the point that args name: "pmi", "pmi abort 7 1",
// "pmi leave-before-init 1", where the last number is the rank that does it.
func overPMI(args []string) error {
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
	if err := c.Put("key-"+strconv.Itoa(c.Rank()), "value"); err != nil {
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
