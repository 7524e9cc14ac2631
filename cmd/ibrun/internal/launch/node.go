package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

// Node runs a node that the head of a job has started, and returns its exit code. It writes its greeting to standard output and
// reads the start message from standard input, whose end ends the job on this node.
func Node(s console.Streams) int {
	err := supported()
	code := 0
	s = s.Async()
	defer s.Flush()
	if err == nil {
		code, err = runNode(s)
	}
	if err == nil {
		return code
	}
	s.Printf("%v", err)
	return exitcode.Of(err)
}

// nodeHost returns the name of this host: the one that Slurm uses, if it has started this process.
func nodeHost() (string, error) {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name, nil
	}
	return os.Hostname()
}

func runNode(s console.Streams) (int, error) {
	host, err := nodeHost()
	if err != nil {
		return 0, fmt.Errorf("find the name of this machine: %w", err)
	}
	// What a login shell has written may have no newline at its end.
	if _, err := fmt.Fprintf(s.Out, "\n%s\n", remote.NewGreeting(host)); err != nil {
		return 0, err
	}
	start, err := protocol.ReadNodeStart(s.In)
	if errors.Is(err, io.EOF) {
		err = errors.New("the command node is only for ibrun itself; to run a program of that name: ibrun -- node")
	}
	if err != nil {
		return 0, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	node, err := start.FindNode(host)
	if err != nil {
		return 0, err
	}
	name := start.Assignment.Host(node).Name
	in, out, err := detachStreams()
	if err != nil {
		return 0, fmt.Errorf("prepare the standard streams: %w", err)
	}
	secret := auth.NewSecret(start.Secret)
	p := coordinator.Peers{Secret: &secret}
	if start.Rendezvous == "" {
		if p.Pipe, err = control.NewPipe(in, out, name, start.Head); err != nil {
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
	o, err := enter(start, node, name)
	if err != nil {
		return 0, err
	}
	w, err := startWatcher()
	if err != nil {
		return 0, err
	}
	defer closeWatcher(w, s)
	return runHere(w, nil, o, p, os.Environ(), s)
}

// enter makes this process that of a node: it sets the environment and the working directory, and returns the command line.
func enter(start *protocol.NodeStart, node int, name string) (*cli.Options, error) {
	env := nodeEnvironment(start.Env, os.Environ(), start.Scheduled)
	os.Clearenv()
	for _, v := range env {
		if name, value, ok := strings.Cut(v, "="); ok {
			if err := os.Setenv(name, value); err != nil {
				return nil, fmt.Errorf("set variable %s: %w", name, err)
			}
		}
	}
	if err := os.Chdir(start.Dir); err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "the working directory cannot be used on %s: %w; create it there, or start "+
			"the job in a directory that all hosts have", name, err)
	}
	o, err := cli.Parse(start.Args, cli.Lookup(start.Env))
	if err != nil {
		return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
	}
	if start.RankFile != "" {
		if o.Policy.File, err = placement.ParseRankFile(o.Policy.FilePath, start.RankFile); err != nil {
			return nil, exitcode.Errorf(exitcode.UsageError, "%w", err)
		}
	}
	o.NodeName, o.Rendezvous, o.JoinTimeout = name, start.Rendezvous, start.JoinTimeout
	return o, useAssignment(o, start.Assignment, node)
}

// nodeEnvironment returns the environment of a node: that of the head, and this host's own for what belongs to a host.
// scheduled says that a scheduler has set the variables of its job on this host.
func nodeEnvironment(head, here []string, scheduled bool) (env []string) {
	ours := map[string]bool{}
	for _, v := range here {
		name, _, _ := strings.Cut(v, "=")
		if belongsToHost(name, scheduled) {
			env = append(env, v)
		}
		ours[name] = true
	}
	for _, v := range head {
		if name, _, _ := strings.Cut(v, "="); !belongsToHost(name, scheduled) {
			env = append(env, v)
			delete(ours, name)
		}
	}
	for _, v := range here {
		if name, _, _ := strings.Cut(v, "="); ours[name] && !belongsToHost(name, scheduled) {
			env = append(env, v) // only this host has it
		}
	}
	return env
}

// belongsToHost reports whether a variable describes a host, a login there or a process there, so that its value on the head
// means nothing on another host.
func belongsToHost(name string, scheduled bool) bool {
	for _, prefix := range []string{"SSH_", "XDG_SESSION_", "DBUS_", "GPG_", "TMUX", "SLURM_STEP_", "SLURM_SRUN_", "SLURM_TOPOLOGY_",
		"SLURM_CPU_BIND", "SLURM_MEM_BIND", "SRUN_", "SLURM_LAUNCH_", "SLURM_TASK", "SYSTEMD_", "LISTEN_"} {
		if strings.HasPrefix(name, prefix) && name != "SLURM_TASKS_PER_NODE" {
			return true
		}
	}
	if slices.Contains([]string{"HOSTNAME", "HOST", "HOSTTYPE", "MACHTYPE", "HOME", "USER", "LOGNAME", "MAIL", "SHELL", "SHLVL",
		"PWD", "OLDPWD", "_", "XDG_RUNTIME_DIR", "XDG_SEAT", "XDG_VTNR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "STY",
		"TTY", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "K_MPI_JOB_ROLE", "SLURMD_NODENAME", "SLURM_PROCID", "SLURM_LOCALID",
		"SLURM_NODEID", "SLURM_GTIDS", "SLURM_CPUS_ON_NODE", "SLURM_DISTRIBUTION", "SLURM_STEPID"}, name) {
		return true
	}
	return scheduled && slices.Contains([]string{"TMPDIR", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
		"GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"}, name)
}
