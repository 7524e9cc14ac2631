package needtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Missing skips the test, or fails it in CI. The arguments are a format and its operands; the text names what the test needs.
func Missing(tb testing.TB, format string, args ...any) {
	tb.Helper()
	format = "needs " + format
	if os.Getenv("CI") == "true" {
		tb.Fatalf(format, args...)
	}
	tb.Skipf(format, args...)
}

// Program returns the path of a program. packages are the packages of Debian that it is in, or needs, with spaces between them.
func Program(tb testing.TB, program, packages string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Missing(tb, "%s: apt-get install %s", program, packages)
	}
	return path
}

// Root returns if the test runs as root. why says what only root may do: "to act as another user".
func Root(tb testing.TB, why string) {
	tb.Helper()
	if os.Geteuid() != 0 {
		Missing(tb, "root, %s", why)
	}
}

// Namespaces returns the path of unshare(1) if that may make the namespaces which flags choose, such as "--mount".
func Namespaces(tb testing.TB, flags ...string) string {
	tb.Helper()
	unshare := Program(tb, "unshare", "util-linux")
	if err := run(append(append([]string{unshare}, flags...), "true")...); err != nil {
		Missing(tb, "the right to make namespaces: %v", err)
	}
	return unshare
}

// Networks returns if ip(8) may make network namespaces, interfaces in them, and processes in them. It tries that once in a
// process.
func Networks(tb testing.TB) {
	tb.Helper()
	Program(tb, "ip", "iproute2")
	if err := networks(); err != nil {
		Missing(tb, "root with the right to make networks (CAP_SYS_ADMIN, CAP_NET_ADMIN): %v", err)
	}
}

// trialPrefix returns the beginning of the names of the network namespaces that this process makes. Other processes use others.
func trialPrefix() string { return fmt.Sprintf("need%d-", os.Getpid()) }

// networks makes a network namespace with a pair of interfaces and a bridge, runs a program in it, and removes it again.
var networks = sync.OnceValue(func() error {
	name := trialPrefix() + strings.ToLower(rand.Text()[:8])
	if err := run("ip", "netns", "add", name); err != nil {
		return err
	}
	err := errors.Join(run("ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "other"),
		run("ip", "-n", name, "link", "add", "bridge", "type", "bridge"), run("ip", "netns", "exec", name, "true"))
	if removeErr := run("ip", "netns", "del", name); err == nil {
		err = removeErr
	}
	return err
})

// run runs a command. Its error has the words and the output of the command.
func run(words ...string) error {
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
