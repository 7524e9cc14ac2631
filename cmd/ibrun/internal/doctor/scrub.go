package doctor

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// scrubber removes secrets and names of users from the files of a bundle. The files are chosen so that there are none; it is the
// second line of defence, for example against a password that is set as the value of a wrong variable.
type scrubber struct {
	patterns
	values *strings.Replacer
	user   *regexp.Regexp // matches a name of the user as a word; nil if none is known that says something
}

// maxQuoted is how many characters of a value errors quote at most.
const maxQuoted = 60

// newScrubber returns a scrubber for the values of an environment.
func newScrubber(env []string) *scrubber {
	const leastSecret = 6 // shorter values occur by chance
	shown := shownVariables()
	getenv := lookup(env)
	p := newPatterns()
	with := map[string]string{} // what is replaced, and by what
	remove := func(value string) {
		cut := []rune(value)
		for _, v := range []string{value, string(cut[:min(len(cut), maxQuoted)])} {
			for _, form := range []string{v, inQuotes(v), inJSON(v), inJSON(inQuotes(v))} {
				with[form] = "(removed)"
			}
		}
	}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if len(value) < leastSecret {
			continue
		}
		switch setting := strings.HasPrefix(name, "IBRUN_") || slices.Contains(shown, name); {
		case p.secretName.MatchString(name):
			remove(value)
		case setting && !isPlain(value): // errors quote the values of settings, or elements of them
			remove(value)
			for piece := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
				if len(piece) >= leastSecret && !isPlain(piece) {
					remove(piece)
				}
			}
		}
	}
	home := getenv("HOME")
	if len(home) > 1 && home != "/root" {
		with[home] = "~"
	}
	var pairs []string
	for _, old := range slices.SortedFunc(maps.Keys(with), longestFirst) { // a value may be a part of another
		pairs = append(pairs, old, with[old])
	}
	s := &scrubber{patterns: p, values: strings.NewReplacer(pairs...)}
	var names []string
	for _, name := range []string{getenv("USER"), getenv("LOGNAME"), getenv("SUDO_USER"), getenv("SLURM_JOB_USER"),
		getenv("PBS_O_LOGNAME"), getenv("LSFUSER"), path.Base(home)} {
		if len(name) > 2 && strings.ContainsAny(name, "abcdefghijklmnopqrstuvwxyz") && !slices.Contains(usualUsers, name) {
			names = append(names, regexp.QuoteMeta(name))
		}
	}
	if slices.SortFunc(names, longestFirst); names != nil {
		s.user = regexp.MustCompile(`(^|[^a-zA-Z0-9])(?:` + strings.Join(names, "|") + `)($|[^a-zA-Z0-9])`)
	}
	return s
}

// longestFirst compares strings for sorting.
func longestFirst(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }

// inQuotes returns a string as it is between the quotes of %q.
func inQuotes(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// inJSON returns a string as it is between the quotes of a report in JSON.
func inJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil { // never: a string has a JSON form
		return s
	}
	return strings.TrimSuffix(b.String()[1:], "\"\n")
}

// usualUsers are names of users that say nothing about a person. Some are the name of the distribution.
var usualUsers = []string{"root", "admin", "user", "ubuntu", "debian", "fedora", "centos", "rocky", "almalinux", "opc",
	"ec2-user", "azureuser", "mpiuser", "slurm"}

// patterns are what a scrubber looks for in every text.
type patterns struct {
	secretName *regexp.Regexp // names of variables that have secrets
	homeFolder *regexp.Regexp // the folder of a user
	userInfo   *regexp.Regexp // the user and the password in an address of a service
	login      *regexp.Regexp // the user in the address of a host or of mail
}

// newPatterns compiles the patterns. They are not variables of the package: every process of a job would compile them.
func newPatterns() patterns {
	return patterns{
		secretName: regexp.MustCompile(`(?i)TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE|APIKEY|API_KEY|ACCESS_KEY|` +
			`_KEY$|_PAT$|_PW$`),
		homeFolder: regexp.MustCompile(`/(?:home|users|Users)/[^/\s"',;:]+`),
		userInfo:   regexp.MustCompile(`://[^/\s"'@]*@`),
		login:      regexp.MustCompile(`[a-zA-Z0-9._+-]+@([a-zA-Z0-9])`),
	}
}

// scrub removes secrets and names of users from a text.
func (s *scrubber) scrub(text []byte) []byte {
	clean := s.homeFolder.ReplaceAllString(s.values.Replace(string(text)), "~")
	clean = s.login.ReplaceAllString(s.userInfo.ReplaceAllString(clean, "://"), "USER@$1")
	if s.user != nil {
		for range 2 { // a match takes the character after it, which may be the one before the next
			clean = s.user.ReplaceAllString(clean, "${1}USER${2}")
		}
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
