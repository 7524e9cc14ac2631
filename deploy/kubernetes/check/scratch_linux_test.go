package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
)

// image builds the root directory of the image, and returns it.
func image(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("bash", "../../../.ci/image").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return "../../../dist/image"
}

// TestScratch runs the arguments of the manifests in root directories made from the image, as the user that they name, and with
// the secret as Kubernetes mounts it. /proc and /sys have all files, or /proc has only those of processes.
func TestScratch(t *testing.T) {
	needRoot(t)
	root := image(t)
	// A node that starts seconds after the other is not a mistake.
	notes := regexp.MustCompile(`(?m)^.*(still waiting for|metrics are at) .*\n`)
	secret := filepath.Join(t.TempDir(), "secret")
	if out, err := exec.Command(filepath.Join(root, "ibrun"), "secret", secret).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job := manifest(t, "job.yaml")[1].(*batch.Job).Spec.Template.Spec
	set := manifest(t, "jobset.yaml")[0].(*jobSet).Spec.ReplicatedJobs[0].Template.Spec.Template.Spec
	for name, pod := range map[string]core.PodSpec{"Job": job, "JobSet": set} {
		c := pod.Containers[0]
		user := int64(0)
		if pod.SecurityContext.RunAsUser != nil {
			user = *pod.SecurityContext.RunAsUser
		}
		mode := int32(0)
		for _, v := range pod.Volumes {
			if v.Secret != nil {
				mode = *v.Secret.DefaultMode
			}
		}
		args := []string{"--net", "--mount", "bash", "-e", "pod.sh", root, fmt.Sprint(user), secret, fmt.Sprintf("%04o", mode)}
		host, _, _ := strings.Cut(flags(c.Args)["rendezvous"], ":")
		for _, kernel := range []string{"all", "few"} {
			t.Run(name+"/"+kernel, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), "unshare", slices.Concat(args, []string{host, kernel}, c.Args)...)
				var stdout, stderr strings.Builder
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				err := cmd.Run()
				if out := stdout.String(); err != nil || !strings.HasPrefix(out, "pi = 3.14159265358") || strings.Count(out, "\n") != 1 ||
					notes.ReplaceAllString(stderr.String(), "") != "" {
					t.Errorf("%v\n%s%s", err, out, &stderr)
				}
			})
		}
		t.Run(name+"/failure", func(t *testing.T) { // the exit code is that of both pods
			cmd := exec.CommandContext(t.Context(), "unshare", slices.Concat(args, []string{host, "few"}, c.Args, []string{"-strips=x"})...)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 100*2+2 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestSSH: with the configuration of the image and the keys that the operator mounts, the launcher reaches a worker without
// questions, and runs what the manifest says on two workers. It refuses a host that does not have the key of the job.
func TestSSH(t *testing.T) {
	needRoot(t)
	root := image(t)
	launcher := manifest(t, "mpijob.yaml")[0].(*mpiJob).Spec.MPIReplicaSpecs["Launcher"].Template.Spec.Containers[0]
	for name, test := range map[string]struct {
		keys    string
		command []string
		code    int
		stdout  string // a part of it
		stderr  string
	}{
		"ssh":       {"same", []string{"ssh", "worker-0", "echo", "works"}, 0, "works\n", ""},
		"ibrun":     {"same", slices.Concat([]string{"ibrun"}, launcher.Args), 0, "pi = 3.14159265358", ""},
		"failure":   {"same", slices.Concat([]string{"ibrun"}, launcher.Args, []string{"-strips=x"}), 2, "", " on worker-"},
		"other key": {"other", slices.Concat([]string{"ibrun"}, launcher.Args), 1, "", "Host key verification failed."},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "unshare", slices.Concat([]string{"--net", "--mount", "bash", "-e", "ssh.sh", "..", root,
				test.keys}, test.command)...)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != test.code || !strings.HasPrefix(stdout.String(), test.stdout) ||
				!strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("%v, want exit code %d\n%s%s", err, test.code, &stdout, &stderr)
			}
		})
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const need = "needs root, to make namespaces"
	if os.Getenv("CI") == "true" {
		t.Fatal(need)
	}
	t.Skip(need)
}
