package doctor

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// scrubber removes secrets and names of users from the files of a bundle. The files are chosen so that there are none; it is the
// second line of defence, for example against a password that is set as the value of a wrong variable.
type scrubber struct {
	values *strings.Replacer
	user   *regexp.Regexp // matches the name of the user as a word; nil if it is unknown or says nothing
}

// newScrubber returns a scrubber for the values of an environment.
func newScrubber(env []string) *scrubber {
	const leastSecret = 6 // shorter values occur by chance
	s := &scrubber{}
	var pairs []string
	getenv := lookup(env)
	if home := getenv("HOME"); len(home) > 1 && home != "/root" {
		pairs = append(pairs, home, "~")
	}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if len(value) >= leastSecret && secretName.MatchString(name) {
			pairs = append(pairs, value, "(removed)")
		}
	}
	s.values = strings.NewReplacer(pairs...)
	for _, name := range []string{"USER", "LOGNAME"} {
		if user := getenv(name); len(user) > 2 && user != "root" && strings.ContainsAny(user, "abcdefghijklmnopqrstuvwxyz") {
			s.user = regexp.MustCompile(`\b` + regexp.QuoteMeta(user) + `\b`)
		}
	}
	return s
}

var (
	// secretName matches names of variables that have secrets.
	secretName = regexp.MustCompile(`(?i)TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE|APIKEY|API_KEY|ACCESS_KEY|_KEY$`)
	// homeFolder matches the folder of a user.
	homeFolder = regexp.MustCompile(`/home/[^/\s"',;:]+`)
)

// scrub removes secrets and names of users from a text.
func (s *scrubber) scrub(text []byte) []byte {
	clean := homeFolder.ReplaceAllString(s.values.Replace(string(text)), "~")
	if s.user != nil {
		clean = s.user.ReplaceAllString(clean, "USER")
	}
	return []byte(clean)
}

// allowFile reports whether a file of the captured machine may be in a bundle, and removes what must not be in it.
func (s *scrubber) allowFile(m *member) bool {
	switch {
	case m.name == "proc/cmdline", path.Base(m.name) == "ifalias", path.Base(m.name) == "node_desc":
		return false // may have passwords; texts of the administrator
	case m.name == "proc/self/status":
		m.data = []byte(keepLines(string(m.data), ":", "CapEff", "Cpus_allowed", "Cpus_allowed_list", "Mems_allowed",
			"Mems_allowed_list", "Threads", "VmLck", "VmPin"))
	case m.name == "proc/mounts":
		m.data = []byte(kernelMounts(string(m.data)))
	}
	if strings.HasPrefix(m.name, "proc/") {
		m.data = s.scrub(m.data)
	}
	return m.link == "" || !strings.Contains(m.link, "/home/")
}

// keepLines returns the lines of a text that begin with one of the keys and a separator.
func keepLines(text, separator string, keys ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if key, _, found := strings.Cut(line, separator); found && slices.Contains(keys, key) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// kernelMounts returns the lines of proc/mounts about file systems of the kernel, with those of their options that describe the
// machine. Other lines have names of servers, users and projects.
func kernelMounts(text string) string {
	kinds := []string{"sysfs", "proc", "cgroup", "cgroup2", "cpuset", "tmpfs", "hugetlbfs"}
	allowed := []string{"rw", "ro", "nosuid", "nodev", "noexec", "relatime", "size", "nr_inodes", "mode", "pagesize", "huge",
		"cpuset", "cpu", "cpuacct", "memory", "pids", "rdma", "noprefix", "nsdelegate", "memory_recursiveprot"}
	ofKernel := func(folder string) bool {
		return strings.HasPrefix(folder, "/sys") || strings.HasPrefix(folder, "/proc") || strings.HasPrefix(folder, "/dev")
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 4 || !slices.Contains(kinds, words[2]) || !ofKernel(words[1]) {
			continue
		}
		options := slices.DeleteFunc(strings.Split(words[3], ","), func(option string) bool {
			name, _, _ := strings.Cut(option, "=")
			return !slices.Contains(allowed, name)
		})
		b.WriteString(strings.Join([]string{words[2], words[1], words[2], strings.Join(options, ","), "0 0\n"}, " "))
	}
	return b.String()
}
