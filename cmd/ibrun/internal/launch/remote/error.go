package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// Error says why a host cannot be used, or how the command has ended that has started it.
type Error struct {
	Host    string
	Reason  string
	Remedy  string   // empty: none is known
	Command string   // what was run; empty: nothing
	Output  []string // the last lines of the command that say more than Reason
	Code    int      // the exit code of the command

	slurm       bool // the command is srun
	ended       bool // the command has ended
	unreachable bool // the host cannot be reached now, so a later attempt may succeed
	missing     bool // the host has no ibrun of that name
}

// Error returns several lines: reason and remedy, what the command has printed, and the command.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Host, e.Reason)
	if e.Remedy != "" {
		fmt.Fprintf(&b, "; %s", e.Remedy)
	}
	for _, line := range e.Output {
		fmt.Fprintf(&b, "\n  | %s", line)
	}
	if e.Command != "" {
		fmt.Fprintf(&b, "\n  it was started with: %s", e.Command)
	}
	return b.String()
}

// ExitCode returns the exit code of ibrun for this error.
func (e *Error) ExitCode() int {
	switch e.Code {
	case exitcode.UsageError, exitcode.NotExecutable, exitcode.NotFound:
		return e.Code
	}
	return exitcode.Failed
}

// symptom is a text that a command prints when it fails.
type symptom struct {
	text   string // in lower case
	reason string // empty: the line of the output that contains text
	remedy string // HOST is replaced by the host, and PROGRAM by the path of ibrun
	unreachable,
	missing bool
}

// symptoms returns what ssh, srun and shells print. The first one that is found counts.
func symptoms() []symptom {
	const (
		login   = "it must be possible to log in without a password: ssh-copy-id HOST; ssh HOST true"
		reach   = "check the name, and that an ssh server runs there: ssh HOST true"
		install = "install ibrun there as PROGRAM, or in the PATH of commands that ssh runs there"
	)
	return []symptom{
		{text: "remote host identification has changed", remedy: "check the key of HOST, and then: ssh-keygen -R HOST"},
		{text: "host key verification failed", remedy: "check and accept the key of HOST: ssh HOST true"},
		{text: "permission denied (", remedy: login},
		{text: "permission denied, please try again", remedy: login},
		{text: "too many authentication failures", remedy: login},
		{text: "could not resolve hostname", remedy: reach, unreachable: true},
		{text: "name or service not known", remedy: reach, unreachable: true},
		{text: "temporary failure in name resolution", remedy: reach, unreachable: true},
		{text: "connection refused", remedy: reach, unreachable: true},
		{text: "connection timed out", remedy: reach, unreachable: true},
		{text: "no route to host", remedy: reach, unreachable: true},
		{text: "network is unreachable", remedy: reach, unreachable: true},
		{text: "kex_exchange_identification", remedy: reach, unreachable: true},
		{text: "connection reset by", remedy: reach, unreachable: true},
		{text: "connection closed by", remedy: reach, unreachable: true},
		{text: "exec format error", reason: "its ibrun is for another architecture",
			remedy: "install an ibrun for that architecture there"},
		{text: "cannot execute binary file", reason: "its ibrun is for another architecture",
			remedy: "install an ibrun for that architecture there"},
		{text: "no such program in path", reason: "its ibrun is too old: it has no command node",
			remedy: "install the same version on all hosts"},
		{text: "no space left on device", remedy: "make room on the disks of HOST"},
		{text: "ibrun: not found", reason: "ibrun is not installed there", remedy: install, missing: true},
		{text: "command not found", reason: "ibrun is not installed there", remedy: install, missing: true},
		{text: "execve(): ", remedy: install, missing: true},
	}
}

// explain completes an error with what the output of the command means. program is the path of ibrun on this host.
func (e *Error) explain(output, program string) {
	expand := strings.NewReplacer("HOST", e.Host, "PROGRAM", program).Replace
	lower := lowerASCII(output)
	for _, s := range symptoms() {
		at := strings.Index(lower, s.text)
		if at < 0 {
			continue
		}
		e.Reason, e.unreachable, e.missing = s.reason, s.unreachable, s.missing
		if s.reason == "" {
			begin := strings.LastIndexByte(output[:at], '\n') + 1
			e.Reason, _, _ = strings.Cut(output[begin:], "\n")
		}
		switch remedy := s.remedy; {
		case !e.slurm || !strings.Contains(remedy, "ssh"):
			e.Remedy = expand(remedy)
		case s.missing:
			e.Remedy = expand("install ibrun there as PROGRAM")
		default:
			e.Remedy = expand("ask Slurm for its state: scontrol show node HOST")
		}
		return
	}
	switch {
	case !e.ended:
	case e.Code == exitcode.NotFound:
		e.Reason, e.missing = "ibrun is not installed there", true
		e.Remedy = expand("install ibrun there as PROGRAM, or in the PATH of commands that are started there")
	case e.Code == exitcode.NotExecutable:
		e.Reason, e.Remedy = "ibrun cannot be executed there", "check its permissions and its architecture"
	}
}

// lowerASCII returns a text with ASCII letters in lower case. Each byte stays where it is.
func lowerASCII(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + ('a' - 'A')
		}
	}
	return string(b)
}

// startError returns the error for a command that could not be started on this host.
func startError(hosts []Host, words []string, err error) *Error {
	e := &Error{Host: hostNames(hosts), Command: quoted(words), Reason: fmt.Sprintf("start %s on this host: %v", words[0], err)}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		e.Reason = fmt.Sprintf("there is no %s on this host, which starts ibrun on others", words[0])
		e.Remedy = "install it, or name another command with --launch-agent"
	}
	return e
}
