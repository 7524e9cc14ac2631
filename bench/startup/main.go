// Command startup measures how long jobs take to start and to end: under ibrun, and under MPICH's hydra or another ibrun.
//
//	go run ./bench/startup                      # all cases, against hydra
//	go run ./bench/startup -case nodes -other OLD/ibrun -agent=false
//
// The two launchers run the same programs alternately, so that what changes on the machine changes both. The cases are:
//
//	nodes     ranks that call Init and Finalize on several nodes, which are network namespaces of this machine; needs root.
//	          Both launchers reach the nodes by the same command
//	machine   the same on this machine alone, with many ranks
//	true      /bin/true on the nodes of the case nodes
//	one       two ranks of /bin/true on this machine
//
// For each time it prints the median of both launchers, and how many times as long the other takes, as geometric mean with the
// 95 % interval of Student's distribution: above 1, ibrun is faster. A launcher that fails ends the command. Use an idle machine.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// settings are the flags.
type settings struct {
	ibrun, other  string
	cases         string
	rounds        int
	nodes, ranks  int // of the case nodes
	machine       int // ranks of the case machine
	dir           string
	rank          string // the program that initialises and finalizes: this one
	otherRank     string // the same for the other launcher
	launchAgent   bool
	showEachRound bool
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == rankCommand {
		exit(runRank(context.Background(), os.Args[2]))
	}
	var s settings
	flag.StringVar(&s.ibrun, "ibrun", "", "the `program` to measure; it is built from this module unless named")
	flag.StringVar(&s.other, "other", "mpiexec.hydra", "the `program` to compare with: hydra, or another ibrun")
	flag.StringVar(&s.otherRank, "other-rank", "", "the rank `program` of the other launcher: another build of this one")
	flag.StringVar(&s.cases, "case", "nodes,true,machine,one", "the cases")
	flag.IntVar(&s.rounds, "rounds", 11, "how often each launcher runs each case")
	flag.IntVar(&s.nodes, "nodes", 8, "nodes of the cases nodes and true")
	flag.IntVar(&s.ranks, "n", 64, "ranks of the cases nodes and true")
	flag.IntVar(&s.machine, "machine", 1000, "ranks of the case machine")
	flag.BoolVar(&s.launchAgent, "agent", true, "ibrun starts the other nodes by --launch-agent, rather than --rendezvous on each")
	flag.BoolVar(&s.showEachRound, "v", false, "print the times of each round")
	flag.Parse()
	exit(s.run())
}

// exit ends the process.
func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "startup:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (s *settings) run() (err error) {
	if s.rounds < 2 || s.nodes < 2 || s.ranks < s.nodes || s.machine < 1 {
		return errors.New("at least 2 rounds, 2 nodes and one rank on each are needed")
	}
	if s.dir, err = os.MkdirTemp("", "ibrun-startup-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.rank, err = os.Executable(); err != nil {
		return err
	}
	s.otherRank = cmp.Or(s.otherRank, s.rank)
	if s.ibrun == "" {
		s.ibrun = filepath.Join(s.dir, "ibrun")
		build := exec.Command("go", "build", "-o", s.ibrun, "github.com/ibrun/ibrun/cmd/ibrun")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build ibrun: %w", err)
		}
	}
	var net *network
	defer func() { err = errors.Join(err, net.remove()) }()
	for name := range strings.SplitSeq(s.cases, ",") {
		if (name == "nodes" || name == "true") && net == nil {
			if net, err = s.newNetwork(); err != nil {
				return err
			}
		}
		if err := s.compare(name, net); err != nil {
			return fmt.Errorf("case %s: %w", name, err)
		}
	}
	return nil
}

// isHydra reports whether a launcher is hydra, the one of MPICH.
func isHydra(launcher string) bool { return strings.Contains(filepath.Base(launcher), "hydra") }
