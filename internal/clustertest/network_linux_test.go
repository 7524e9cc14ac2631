package clustertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
)

// network is a network of hosts that run sshd. Each host has a name, an address and file systems of its own. The commands of the
// user run in a network namespace that is connected with the hosts. So no network device of this machine comes or goes.
type network struct {
	t     *testing.T
	dir   string
	id    int
	user  string // the namespace of the user
	hosts []*host
}

// host is a host of a network.
type host struct {
	name, addr, device string
	server             *exec.Cmd
	log                text
}

// networks counts the networks that were made.
var networks atomic.Int32

// setup says how a host differs from others.
type setup struct {
	script string // for sh, as root of the host, before sshd starts
	config string // lines of sshd's configuration
	closed bool   // sshd does not run
}

// newNetwork makes a network with the hosts of the given names.
func newNetwork(t *testing.T, names []string, setups map[string]setup) *network {
	t.Helper()
	// Other users may run these tests on this machine.
	n := &network{t: t, dir: t.TempDir(), id: (os.Getpid()*7 + int(networks.Add(1))) % 250}
	n.user = fmt.Sprintf("ibc%d", n.id)
	n.ip("netns add %s", n.user)
	t.Cleanup(func() { n.ip("netns del %s", n.user) }) // and its devices
	n.ip("-n %s link set lo up", n.user)
	n.ip("-n %s link add br0 type bridge", n.user)
	n.ip("-n %s addr add %s/24 dev br0", n.user, n.address(254))
	n.ip("-n %s link set br0 up", n.user)
	n.keys()
	for i, name := range names {
		n.addHost(i, name, setups[name])
	}
	n.configureClient()
	for _, h := range n.hosts {
		if !setups[h.name].closed {
			n.waitFor(h)
		}
	}
	return n
}

// newJob prepares a command whose ssh knows the hosts and the key of the user.
func (n *network) newJob(args ...string) *job {
	n.t.Helper()
	j := newJob(n.t, append([]string{"ip", "netns", "exec", n.user}, args...)...)
	j.cmd.Env = append(j.cmd.Env, "PATH="+n.dir+":"+os.Getenv("PATH"))
	return j
}

// start starts a command whose ssh knows the hosts and the key of the user.
func (n *network) start(args ...string) *job {
	n.t.Helper()
	return n.newJob(args...).start()
}

func (n *network) address(i int) string { return fmt.Sprintf("198.19.%d.%d", n.id, i) }

func (n *network) file(name string) string { return filepath.Join(n.dir, name) }

func (n *network) ip(format string, args ...any) {
	n.t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		n.t.Fatalf("ip %q: %v: %s", words, err, out)
	}
}

func (n *network) write(name, text string, mode os.FileMode) {
	n.t.Helper()
	if err := os.WriteFile(n.file(name), []byte(text), mode); err != nil {
		n.t.Fatal(err)
	}
}

// keys makes the key of the hosts and that of the user.
func (n *network) keys() {
	n.t.Helper()
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", n.file(key)).CombinedOutput(); err != nil {
			n.t.Fatalf("%v\n%s", err, out)
		}
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // what Debian's service does before it starts
		n.t.Fatal(err)
	}
}

// addHost makes the namespaces of a host and starts its sshd.
func (n *network) addHost(i int, name string, s setup) {
	n.t.Helper()
	space := fmt.Sprintf("ibc%d-%d", n.id, i)
	h := &host{name: name, addr: n.address(i + 1), device: fmt.Sprintf("host%d", i)}
	n.hosts = append(n.hosts, h)
	n.ip("netns add %s", space)
	n.t.Cleanup(func() { n.ip("netns del %s", space) })
	n.ip("-n %s link add %s type veth peer name eth0 netns %s", n.user, h.device, space)
	n.ip("-n %s link set %s master br0 up", n.user, h.device)
	n.ip("-n %s addr add %s/24 dev eth0", space, h.addr)
	n.ip("-n %s link set eth0 up", space)
	n.ip("-n %s link set lo up", space)
	// With SHLVL=1 bash does not read ~/.bashrc of this machine: a program there that a test kills may leave a lock, for which all
	// later logins wait.
	config := fmt.Sprintf("ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\nUsePAM no\n"+
		"PermitRootLogin yes\nPrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\nSetEnv PATH=%s SHLVL=1\n"+
		"AcceptEnv %s\n%s", h.addr, n.file("host"), n.file("user.pub"),
		os.Getenv("PATH"), marked, s.config)
	n.write("sshd."+name, config, 0o600)
	command := "/usr/sbin/sshd -D -e -f " + n.file("sshd."+name)
	if s.closed {
		command = "sleep infinity"
	}
	script := fmt.Sprintf("set -e\nhostname %s\n%s\nexec %s", name, s.script, command)
	h.server = exec.Command("ip", "netns", "exec", space, "unshare", "--mount", "--uts", "--propagation", "private",
		"sh", "-c", script)
	h.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.server.Stderr = &h.log
	h.server.WaitDelay = time.Second // its sessions have the same standard error
	if err := h.server.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = h.server.Process.Kill() // it may have ended
		_ = h.server.Wait()         // which says that it was killed
		pids, err := exec.Command("ip", "netns", "pids", space).Output()
		if err != nil {
			n.t.Errorf("ip netns pids: %v", err)
		}
		for _, word := range strings.Fields(string(pids)) { // sessions whose connection was cut
			if pid, err := strconv.Atoi(word); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	})
}

// marked are the variables of a job that ssh sends to a host: those by which the tests see what is left there.
const marked = markName + " TMPDIR XDG_RUNTIME_DIR"

// configureClient lets the ssh of the jobs find the hosts and the keys, as the file of a user would.
func (n *network) configureClient() {
	n.t.Helper()
	var config, known bytes.Buffer
	key, err := os.ReadFile(n.file("host.pub"))
	if err != nil {
		n.t.Fatal(err)
	}
	for _, h := range n.hosts {
		fmt.Fprintf(&config, "Host %s\n\tHostName %s\n", h.name, h.addr)
		fmt.Fprintf(&known, "%s %s", h.addr, key)
	}
	fmt.Fprintf(&config, "Host *\n\tIdentityFile %s\n\tIdentitiesOnly yes\n\tIdentityAgent none\n\tUserKnownHostsFile %s\n"+
		"\tGlobalKnownHostsFile none\n\tStrictHostKeyChecking yes\n\tLogLevel ERROR\n\tSendEnv %s\n", n.file("user"),
		n.file("known"), marked)
	n.write("config", config.String(), 0o600)
	n.write("known", known.String(), 0o600)
	for _, program := range []string{"ssh", "scp"} {
		n.write(program, "#!/bin/sh\nexec /usr/bin/"+program+" -F "+n.file("config")+` "$@"`+"\n", 0o755)
	}
}

// waitFor waits until the sshd of a host listens.
func (n *network) waitFor(h *host) {
	n.t.Helper()
	waittest.UntilNil(n.t, "sshd of "+h.name+" listens", func() error {
		connect := fmt.Sprintf("exec 3<>/dev/tcp/%s/22", h.addr)
		if out, err := exec.Command("ip", "netns", "exec", n.user, "bash", "-c", connect).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s\n%s", err, out, &h.log)
		}
		return nil
	})
}

// cut makes the network of a host deliver nothing any more.
func (n *network) cut(i int) {
	n.t.Helper()
	n.ip("-n %s link set %s down", n.user, n.hosts[i].device)
}
