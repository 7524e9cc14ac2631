package completion

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
)

// maxHostsFile bounds how much of a file is read: an answer must come before the user has typed on.
const maxHostsFile = 1 << 20

// hosts returns the names of the hosts whose names this machine has: those of the allocation or of the host file of the job, and
// those of
// ssh's files and /etc/hosts. A file that cannot be read has none.
func (c *completer) hosts(words []string) []string {
	var names []string
	file := c.getenv("IBRUN_HOSTFILE")
	for i, word := range words {
		name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !slices.Contains([]string{"hostfile", "f", "machinefile", "machine-file"}, name) || !strings.HasPrefix(word, "-") {
			continue
		}
		if hasValue {
			file = value
		} else if i+1 < len(words) {
			file = words[i+1]
		}
	}
	if file != "" {
		if hosts, _, err := allocation.ParseHostFile(file, read(file)); err == nil {
			for _, h := range hosts {
				names = append(names, h.Name)
			}
		}
	}
	if a, err := allocation.Find(allocation.Options{Terminal: true}, c.getenv, ""); a != nil && err == nil {
		for _, h := range a.Hosts {
			names = append(names, h.Name)
		}
	}
	if c.home != "" {
		names = append(names, knownHosts(read(filepath.Join(c.home, ".ssh/known_hosts")))...)
		names = append(names, configHosts(read(filepath.Join(c.home, ".ssh/config")))...)
	}
	names = append(names, knownHosts(read(filepath.Join(c.root, "etc/ssh/ssh_known_hosts")))...)
	names = append(names, etcHosts(read(filepath.Join(c.root, "etc/hosts")))...)
	slices.Sort(names)
	return slices.Compact(names)
}

// read returns the beginning of a file, or nothing.
func read(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxHostsFile))
	if err != nil {
		return ""
	}
	return string(text)
}

// knownHosts returns the names in a file of known hosts of ssh. Hashed names and patterns are left out.
func knownHosts(text string) (names []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 0 && fields[0][0] == '@' { // @cert-authority or @revoked
			fields = fields[1:]
		}
		if len(fields) < 3 || fields[0][0] == '#' {
			continue
		}
		for name := range strings.SplitSeq(fields[0], ",") {
			if bracketed, ok := strings.CutPrefix(name, "["); ok { // [host]:port
				name, _, _ = strings.Cut(bracketed, "]")
			}
			names = appendName(names, name)
		}
	}
	return names
}

// configHosts returns the names after Host in a configuration of ssh.
func configHosts(text string) (names []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.Replace(line, "=", " ", 1))
		if len(fields) > 1 && strings.EqualFold(fields[0], "Host") {
			for _, name := range fields[1:] {
				names = appendName(names, name)
			}
		}
	}
	return names
}

// etcHosts returns the names in /etc/hosts, without those of this machine.
func etcHosts(text string) (names []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "127.") || strings.Contains(fields[0], "::") {
			continue
		}
		for _, name := range fields[1:] {
			names = appendName(names, name)
		}
	}
	return names
}

// appendName appends a name that a host can have.
func appendName(names []string, name string) []string {
	ok := name != "" && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r))
	})
	if !ok {
		return names
	}
	return append(names, name)
}
