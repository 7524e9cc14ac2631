package watcher

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Command describes a command that the watcher starts, in a session of its own.
type Command struct {
	Path string // absolute
	Args []string
	Dir  string
	Env  []string // variables that are added to the environment of ibrun, or replace those of the same name
	// Unset are prefixes of the names of variables that the command does not inherit from ibrun.
	Unset []string `json:",omitempty"`
	// Files become the descriptors of the command, from 0 on. ^0 is a closed descriptor. The caller keeps them.
	Files []uintptr `json:"-"`
	// KilledTogether makes the kernel kill the command when the watcher dies.
	KilledTogether bool `json:",omitempty"`
	// Linger is how long the command may run on after ibrun has died: it ends by itself when its streams do.
	Linger time.Duration `json:",omitempty"`
	// Cgroup is the name of a control group to be created for processes of the command. The command inherits its directory as
	// the descriptor after Files, closed if the group cannot be created. Empty: no group.
	Cgroup string `json:",omitempty"`
}

// environment returns the environment of the command, of ibrun's own.
func (c *Command) environment(own []string) []string {
	env := slices.Clone(c.Env) // of two variables with one name, programs read the first
	for _, v := range own {
		if !slices.ContainsFunc(c.Unset, func(prefix string) bool { return strings.HasPrefix(v, prefix) }) {
			env = append(env, v)
		}
	}
	return env
}

// Leftovers are files that the watcher removes if ibrun dies before it has removed them itself.
type Leftovers struct {
	Trees []string `json:",omitempty"` // directories with their contents
	Files []string `json:",omitempty"`
	Dirs  []string `json:",omitempty"` // directories, if they are empty then; a file with such a name remains
}

// Ended describes the end of a command. If it was the last one that ran, no process below the watcher is left.
type Ended struct {
	Status syscall.WaitStatus
	Stuck  []int  `json:",omitempty"` // processes that do not exit after SIGKILL
	Err    string `json:",omitempty"` // why the control group could not be removed
}

// order is a message from ibrun. Exactly one of Run, Signal, Kill and Leftovers is set.
type order struct {
	ID        int            `json:",omitempty"` // of the command, chosen by ibrun; with Kill, 0 means all commands
	Run       *Command       `json:",omitempty"`
	Positions []int          `json:",omitempty"` // with Run: the descriptors of the command that the passed files become
	Signal    syscall.Signal `json:",omitempty"` // to be sent to the command
	Kill      bool           `json:",omitempty"` // all commands and everything below the watcher, or the session of one command
	Leftovers *Leftovers     `json:",omitempty"`
}

// event is a message to ibrun. Exactly one of PID, Err and Ended is set.
type event struct {
	ID     int           `json:",omitempty"` // with Ended: of the command
	PID    int           `json:",omitempty"` // the command was started
	Cgroup string        `json:",omitempty"` // with PID: the directory of its control group
	Err    string        `json:",omitempty"` // why the command could not be started
	Errno  syscall.Errno `json:",omitempty"` // with Err
	Ended  *Ended        `json:",omitempty"`
}

// decodeOrder parses a message from ibrun that was received together with that many files.
func decodeOrder(text []byte, files int) (*order, error) {
	o := new(order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("invalid order: %w", err)
	}
	if len(o.Positions) != files {
		return nil, fmt.Errorf("invalid order: %d files for %d descriptors", files, len(o.Positions))
	}
	for _, at := range o.Positions {
		if at < 0 || at >= maxFiles {
			return nil, fmt.Errorf("invalid order: descriptor %d", at)
		}
	}
	return o, nil
}

// decodeEvent parses a message from the watcher.
func decodeEvent(text []byte) (*event, error) {
	e := new(event)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("invalid event of the watcher: %w", err)
	}
	return e, nil
}

const (
	// maxFiles is the highest number of files of a command.
	maxFiles = 16
	// maxMessage is the length of the longest message in bytes. A message is one packet, and sockets accept packets of 64 KiB
	// with the settings of every kernel.
	maxMessage = 64 << 10
)
