package launch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/internal/auth"
)

// Node runs a node that the coordinator of a job has started, and returns its exit code. It writes
// its greeting to standard output and reads the start message from standard input, whose end ends
// the job on this node. out ends on standard output.
func Node(s console.Streams, out io.Writer) int {
	err := supported()
	code := 0
	s = s.Async()
	defer s.Flush()
	if err == nil {
		code, err = runNode(&s, out)
	}
	if err == nil {
		return code
	}
	s.Error("ibrun has failed on a node", console.Attrs{Error: err.Error(), Text: err.Error()})
	return exitcode.Of(err)
}

// nodeHost returns the name of this host: the one that Slurm uses, if it has started this process.
func nodeHost() (string, error) {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name, nil
	}
	return os.Hostname()
}

// runNode runs the node. It sets s.Host when the coordinator has answered: the command that started
// this process passes its lines on.
func runNode(s *console.Streams, stdout io.Writer) (int, error) {
	host, err := nodeHost()
	if err != nil {
		return 0, fmt.Errorf("find the name of this machine: %w", err)
	}
	errNotStarted := exitcode.Errorf(exitcode.UsageError,
		"the command node is only for ibrun itself; to run a program of that name: ibrun -- node")
	if console.IsTerminal(s.In) {
		return 0, errNotStarted
	}
	// What a login shell has written may have no newline at its end.
	if _, err := fmt.Fprintf(stdout, "\n%s\n", remote.NewGreeting(host)); err != nil {
		return 0, err
	}
	start, err := protocol.ReadNodeStart(s.In)
	if errors.Is(err, io.EOF) {
		return 0, errNotStarted
	}
	if err != nil {
		return 0, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	s.Host = host
	node, err := start.FindNode(host)
	if err != nil {
		return 0, err
	}
	name := start.Assignment.Host(node).Name
	s.Host = name
	in, out, err := detachStreams()
	if err != nil {
		return 0, fmt.Errorf("prepare the standard streams: %w", err)
	}
	secret := auth.NewSecret(start.Secret)
	p := coordinator.Peers{Secret: &secret}
	if start.Rendezvous == "" {
		if p.Pipe, err = control.NewPipe(in, out, name, start.Coordinator); err != nil {
			return 0, err
		}
	} else {
		out.Close()
		gone := make(chan struct{})
		p.Gone = gone
		go func() {
			_, _ = io.Copy(io.Discard, in) // any error ends it as well
			close(gone)
		}()
	}
	j, err := enter(start, node, name)
	if err != nil {
		return 0, err
	}
	if j.logJSON {
		*s = s.WithJSON()
	}
	*s = atNode(*s, &j.place)
	w, err := startWatcher()
	if err != nil {
		return 0, err
	}
	defer closeWatcher(w, *s)
	return runHere(w, nil, j, p, os.Environ(), *s)
}

// enter makes this process that of a node: it sets the environment and the working directory, and
// returns the job.
func enter(start *protocol.NodeStart, node int, name string) (*job, error) {
	env := nodeEnvironment(start.Env, os.Environ(), start.Scheduled)
	os.Clearenv()
	for _, v := range env {
		if name, value, ok := strings.Cut(v, "="); ok {
			if err := os.Setenv(name, value); err != nil {
				return nil, fmt.Errorf("set variable %s: %w", name, err)
			}
		}
	}
	if err := os.Chdir(string(start.Dir)); err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "the working directory cannot be used on %s: %w; create it there, or start "+
			"the job in a directory that all hosts have", name, err)
	}
	o, err := cli.Parse(start.Args, cli.LookupEnv(start.Env))
	if err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	j := newJob(o)
	if p := &j.place.policy; start.RankFile != "" {
		if p.File, err = placement.ParseRankFile(p.FilePath, start.RankFile); err != nil {
			return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
		}
	}
	j.place.name, j.join.Rendezvous = name, start.Rendezvous
	j.join.Timeout = cmp.Or(start.JoinTimeout, coordinator.DefaultJoinTimeout)
	return j.assigned(start.Assignment, node)
}
