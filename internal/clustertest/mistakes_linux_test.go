package clustertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
)

// otherIbrun builds an ibrun that differs from the one of the tests.
func otherIbrun(t *testing.T, env []string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ibrun")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-o", path}, flags, []string{"./cmd/ibrun"})...)
	cmd.Dir, cmd.Env = checkout, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// otherProtocol builds an ibrun whose nodes have another protocol.
func otherProtocol(t *testing.T) string {
	t.Helper()
	source := filepath.Join(checkout, "cmd/ibrun/internal/launch/protocol/node.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`(?m)^(const NodeProtocol = )\d+$`).ReplaceAll(text, []byte("${1}9999"))
	if bytes.Equal(text, other) {
		t.Fatalf("%s declares no NodeProtocol", source)
	}
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: dir + "/node.go"}})
	err = errors.Join(err, os.WriteFile(dir+"/node.go", other, 0o600), os.WriteFile(dir+"/overlay", overlay, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return otherIbrun(t, nil, "-overlay="+dir+"/overlay")
}

// workDir returns the directory in which the jobs run that have a mistake.
func workDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(programs), "work", "dir")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mistake is something that is wrong with host b, or with how it is reached.
type mistake struct {
	name  string
	hosts string // the default is "a:1,b:1"
	args  []string
	b     setup
	// want are texts that standard error must contain: the host, what is wrong, and the remedy.
	want []string
	// later says that the job waits for the host after it has reported it.
	later bool
}

func mistakes(t *testing.T) []mistake {
	bin := filepath.Join(programs, "ibrun")
	replace := func(with string) setup { return setup{script: "mount --bind " + with + " " + bin} }
	return []mistake{
		{name: "no such host", hosts: "a:1,nowhere.invalid:1", want: []string{"nowhere.invalid", "Could not resolve"}, later: true},
		{name: "refused", b: setup{closed: true}, want: []string{"b", "refused"}, later: true},
		{name: "password", b: setup{config: "PubkeyAuthentication no\nPasswordAuthentication yes\n"},
			want: []string{"b", "Permission denied", "ssh-copy-id"}},
		{name: "no login", b: setup{config: "ForceCommand echo This account is not available; exit 1\n"},
			want: []string{"b", "This account is not available", "by hand"}},
		{name: "silent", b: setup{config: "ForceCommand exec env -u " + markName + " sleep 1000\n"}, want: []string{"b"}, later: true},
		{name: "no ibrun", b: setup{script: "mount -t tmpfs tmpfs " + programs}, want: []string{"b", "ibrun is not installed", "PATH"}},
		{name: "other version", b: replace(otherProtocol(t)), want: []string{"b", "protocol 9999", "same version"}},
		{name: "not this program", b: replace("/bin/true"), want: []string{"b", bin, "by hand"}},
		{name: "other architecture", b: replace(otherIbrun(t, []string{"GOARCH=arm64", "CGO_ENABLED=0"})),
			want: []string{"b", "another architecture"}},
		{name: "garbage", args: []string{"--launch-agent", "sh -c 'head -c 100000 /dev/urandom'"}, want: []string{"a", "by hand"}},
		{name: "endless garbage", args: []string{"--launch-agent", "sh -c 'cat /dev/urandom'"}, want: []string{"a", "by hand"}},
		{name: "no such agent", args: []string{"--launch-agent", "no-such-agent"}, want: []string{"a", "no-such-agent"}},
		{name: "no such directory", b: setup{script: "mount -t tmpfs tmpfs " + filepath.Dir(workDir(t))},
			want: []string{"b", "directory", workDir(t)}},
	}
}

// TestMistakes: what is wrong with a host is reported long before --join-timeout, with the host and the remedy, and nothing is
// left. The log says how long it took.
func TestMistakes(t *testing.T) {
	for _, m := range mistakes(t) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if m.hosts == "" {
				m.hosts = "a:1,b:1"
			}
			args := append(append([]string{"ibrun", "--join-timeout", "1h", "--hosts", m.hosts}, m.args...), "sleep", "1000")
			j := newNetwork(t, ab, map[string]setup{"b": m.b}).newJob(args...)
			j.cmd.Dir = workDir(t)
			j.start()
			began := time.Now()
			waittest.UntilNil(t, "a report", func() error {
				ended := j.hasEnded()
				for _, text := range m.want {
					if said := j.err(); !strings.Contains(said, text) {
						if ended {
							t.Fatalf("it has ended, and wrote %q, want all of %q", said, m.want)
						}
						return fmt.Errorf("it wrote %q, want all of %q", said, m.want)
					}
				}
				return nil
			})
			t.Logf("after %v:\n%s", time.Since(began).Round(time.Millisecond), j.err())
			if m.later {
				_ = j.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			}
			if code := j.wait(); code == 0 {
				t.Error("exit code 0")
			}
			j.nothingLeft()
		})
	}
}

// TestBanners: what a server and the shell of a user print before ibrun does not disturb a job.
func TestBanners(t *testing.T) {
	t.Parallel()
	profile := script(t, `echo "Welcome to $(uname -n)"; head -c 40000 /dev/zero | tr '\0' x; echo; echo "quota exceeded" >&2
		printf 'a prompt without a newline> '; exec sh -c "$SSH_ORIGINAL_COMMAND"`)
	banner := setup{config: "Banner " + profile + "\nForceCommand " + profile + "\n"}
	newNetwork(t, ab, map[string]setup{"a": banner, "b": banner}).start("ibrun", "--hosts", "a:1,b:1", "sh", "-c", here).
		want(0).wantLines("0 of 2 on a", "1 of 2 on b")
}

// TestFullDisk: a host without room for the program is reported, and what was stored there is removed.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, append([]byte("#!/bin/sh\nexit 0\n"), make([]byte, 1<<20)...), 0o755); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	setups := map[string]setup{"b": {script: fmt.Sprintf("mount -t tmpfs tmpfs %s\nmount -t tmpfs -o size=64k tmpfs %s\n"+
		"mount -t tmpfs -o size=64k tmpfs /root", dir, full)}}
	j := newNetwork(t, ab, setups).newJob("ibrun", "--hosts", "a:1,b:1", "--copy", program)
	j.cmd.Dir = "/" // this folder may be in /root
	j.cmd.Env = append(j.cmd.Env, "TMPDIR="+full)
	j.start()
	if code := j.wait(); code == 0 || !strings.Contains(j.err(), "no space left on device") || !strings.Contains(j.err(), "b") {
		t.Errorf("exit code %d:\n%s", code, j.err())
	}
	j.nothingLeft()
}

// recordStart puts an srun first in PATH that writes what ibrun sends to the nodes to the file that it returns.
func recordStart(t *testing.T, j *job) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "message")
	text := "#!/bin/sh\ntee " + file + ` | /usr/bin/srun "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "srun"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	j.cmd.Env = append(j.cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
	return file
}

// startMessage waits for the start message in a file that is being written.
func startMessage(j *job, file string) (message []byte) {
	j.t.Helper()
	j.eventually("there is no start message", func() bool {
		text, _ := os.ReadFile(file) // it may not exist yet
		line, _, whole := bytes.Cut(text, []byte("\n"))
		message = append(line, '\n')
		return whole
	})
	return message
}

// TestWrongNodes: a node that comes twice, and one that comes from another job, are refused, and the job goes on.
func TestWrongNodes(t *testing.T) {
	t.Parallel()
	var jobs [2]*job
	var messages [2]map[string]any
	for i := range jobs {
		jobs[i] = slurm(t, "salloc", "-Q", "-N2", "-n2", "ibrun", "sh", "-c",
			`echo ready; until [ -e `+t.TempDir()+`/go ]; do sleep 0.05; done`)
		file := recordStart(t, jobs[i])
		jobs[i].start().wrote("ready", 2)
		if err := json.Unmarshal(startMessage(jobs[i], file), &messages[i]); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(message map[string]any, want string) {
		t.Helper()
		text, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		node := newJob(t, "ibrun", "node")
		node.cmd.Env = append(node.cmd.Env, "SLURMD_NODENAME=n2")
		node.cmd.Stdin = in
		if _, err := out.Write(append(text, '\n')); err != nil {
			t.Fatal(err)
		}
		node.start()
		if code := node.wait(); code == 0 || !strings.Contains(node.err(), want) {
			t.Errorf("exit code %d, want %q on standard error:\n%s", code, want, node.err())
		}
		node.nothingLeft()
	}
	refused(messages[0], "every node needs a number of its own")
	messages[0]["Rendezvous"] = messages[1]["Rendezvous"]
	refused(messages[0], "different secret")
	for _, j := range jobs {
		for _, dir := range strings.Fields(j.cmd.Args[len(j.cmd.Args)-1]) {
			if strings.HasSuffix(dir, "/go") {
				if err := os.WriteFile(dir, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		j.want(0)
	}
}
