package check

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	selected "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// jobSet is the part of a JobSet (jobset.x-k8s.io/v1alpha2) that the manifests may use.
type jobSet struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Network struct {
			EnableDNSHostnames       *bool  `json:"enableDNSHostnames"`
			PublishNotReadyAddresses *bool  `json:"publishNotReadyAddresses"`
			Subdomain                string `json:"subdomain"`
		} `json:"network"`
		FailurePolicy struct {
			MaxRestarts int32 `json:"maxRestarts"`
		} `json:"failurePolicy"`
		ReplicatedJobs []struct {
			Name     string                `json:"name"`
			Replicas int32                 `json:"replicas"`
			Template batch.JobTemplateSpec `json:"template"`
		} `json:"replicatedJobs"`
	} `json:"spec"`
}

// mpiJob is the part of an MPIJob (kubeflow.org/v2beta1) that the manifests may use.
type mpiJob struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		SlotsPerWorker         *int32 `json:"slotsPerWorker"`
		MPIImplementation      string `json:"mpiImplementation"`
		SSHAuthMountPath       string `json:"sshAuthMountPath"`
		LauncherCreationPolicy string `json:"launcherCreationPolicy"`
		RunPolicy              struct {
			CleanPodPolicy string `json:"cleanPodPolicy"`
			BackoffLimit   *int32 `json:"backoffLimit"`
		} `json:"runPolicy"`
		MPIReplicaSpecs map[string]struct {
			Replicas *int32               `json:"replicas"`
			Template core.PodTemplateSpec `json:"template"`
		} `json:"mpiReplicaSpecs"`
	} `json:"spec"`
}

// podMonitor is the part of a PodMonitor (monitoring.coreos.com/v1) that the manifests may use.
type podMonitor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Selector            meta.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port     string `json:"port"`
			Interval string `json:"interval"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// decode decodes an object of a manifest. Unknown and doubled fields are errors, and so are names in another case.
func decode(text []byte) (any, error) {
	js, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var kind meta.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(js, &kind); err != nil {
		return nil, err
	}
	var object any
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Service":
		object = &core.Service{}
	case "batch/v1 Job":
		object = &batch.Job{}
	case "jobset.x-k8s.io/v1alpha2 JobSet":
		object = &jobSet{}
	case "kubeflow.org/v2beta1 MPIJob":
		object = &mpiJob{}
	case "monitoring.coreos.com/v1 PodMonitor":
		object = &podMonitor{}
	default:
		return nil, fmt.Errorf("unknown kind %s of %s", kind.Kind, kind.APIVersion)
	}
	strict, err := json.UnmarshalStrict(js, object)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	return object, err
}

// manifest returns the objects of a manifest.
func manifest(t *testing.T, name string) []any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	var objects []any
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object, err := decode(part)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, object)
	}
	return objects
}

// TestStrict: the decoder of this test refuses what Kubernetes would ignore or refuse.
func TestStrict(t *testing.T) {
	for name, changes := range map[string][][2]string{
		"job.yaml": {{"completionMode", "completionmode"}, {"subdomain:", "subDomain:"}, {"memory: 1Gi", "memory: 1Gb"},
			{"mountPath: /tmp", "path: /tmp"}, {"backoffLimit: 0", "backoffLimit: none"}},
		"jobset.yaml":     {{"enableDNSHostnames", "enableDnsHostnames"}, {"IPC_LOCK]", "IPC_LOCK]\n                  ad: [X]"}},
		"podmonitor.yaml": {{"podMetricsEndpoints", "endpoints"}, {"matchLabels", "labels"}},
		"mpijob.yaml":     {{"slotsPerWorker", "slots"}, {"tcpSocket:", "tcp:"}, {"replicas: 2", "replicas: 2\n      replicas: 3"}},
	} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			changed := strings.Replace(string(text), c[0], c[1], 1)
			failed := false
			for part := range strings.SplitSeq(changed, "\n---\n") {
				_, err := decode([]byte(part))
				failed = failed || err != nil
			}
			if !failed || changed == string(text) {
				t.Errorf("%s with %q is accepted", name, c[1])
			}
		}
	}
}

// flags returns the flags of ibrun in the arguments of a container: their values by name.
func flags(args []string) map[string]string {
	values := map[string]string{}
	for _, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			values[strings.TrimLeft(name, "-")] = value
		}
	}
	return values
}

// checkPod checks what every pod needs: volumes for its mounts, memory at /dev/shm, requests and limits.
func checkPod(t *testing.T, pod *core.PodSpec) *core.Container {
	t.Helper()
	if len(pod.Containers) != 1 || pod.RestartPolicy != core.RestartPolicyNever {
		t.Fatalf("%d containers, restart %s", len(pod.Containers), pod.RestartPolicy)
	}
	c := &pod.Containers[0]
	volumes := map[string]core.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	for _, m := range c.VolumeMounts {
		v, ok := volumes[m.Name]
		if !ok {
			t.Errorf("%s mounts volume %s, which does not exist", c.Name, m.Name)
		}
		delete(volumes, m.Name)
		if m.MountPath == "/dev/shm" {
			e := v.EmptyDir
			if e == nil || e.Medium != core.StorageMediumMemory || e.SizeLimit == nil || e.SizeLimit.Cmp(*c.Resources.Limits.Memory()) >= 0 {
				t.Errorf("%s: /dev/shm is %+v; it must be memory, and less than that of the container", c.Name, v)
			}
		}
	}
	if len(volumes) > 0 {
		t.Errorf("volumes that nothing mounts: %v", volumes)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("%s has no limit of memory, or requests no processor", c.Name)
	}
	return c
}

// checkIndexed checks a Job whose pods are the nodes of one ibrun job. first is the name of the first pod in DNS.
func checkIndexed(t *testing.T, job *batch.JobSpec, first string) {
	t.Helper()
	pod := &job.Template.Spec
	c := checkPod(t, pod)
	checkScraped(t, job.Template.Labels, c, c.Args)
	if job.CompletionMode == nil || *job.CompletionMode != batch.IndexedCompletion || *job.BackoffLimit != 0 ||
		*job.Completions != *job.Parallelism {
		t.Errorf("completion mode %v, back-off limit %d, %d completions with %d at a time",
			job.CompletionMode, *job.BackoffLimit, *job.Completions, *job.Parallelism)
	}
	f := flags(c.Args)
	want := map[string]string{
		"rendezvous": first + ":7000", "node": fmt.Sprintf("$(JOB_COMPLETION_INDEX)/%d", *job.Completions), "n": "4",
		"node-name": "pi-$(JOB_COMPLETION_INDEX)", "secret-file": "/run/secrets/ibrun/secret", "join-timeout": "5m",
		"grace": fmt.Sprintf("%ds", *pod.TerminationGracePeriodSeconds-5), "metrics": "0.0.0.0:9464",
	}
	for name, value := range want {
		if f[name] != value {
			t.Errorf("--%s is %q, want %q", name, f[name], value)
		}
	}
	if len(f) != len(want) {
		t.Errorf("flags %v, want %v", f, want)
	}
	for _, v := range pod.Volumes {
		if v.Secret == nil {
			continue
		}
		mode, group := *v.Secret.DefaultMode, pod.SecurityContext.FSGroup
		if group == nil && mode != 0o400 || group != nil && mode != 0o440 {
			t.Errorf("the secret has mode %04o, with fsGroup %v", mode, group)
		}
		if !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool {
			return m.Name == v.Name && m.MountPath == path.Dir(f["secret-file"])
		}) {
			t.Errorf("the secret is not mounted at the folder of %s", f["secret-file"])
		}
	}
}

// checkScraped checks that podmonitor.yaml selects a pod, whose ibrun has these arguments, and finds its metrics.
func checkScraped(t *testing.T, labels map[string]string, c *core.Container, args []string) {
	t.Helper()
	m := manifest(t, "podmonitor.yaml")[0].(*podMonitor)
	selector, err := meta.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil || selector.Empty() || !selector.Matches(selected.Set(labels)) {
		t.Errorf("%s: %v, %v does not select the labels %v", c.Name, err, selector, labels)
	}
	_, port, _ := strings.Cut(flags(args)["metrics"], ":")
	if !slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool {
		return p.Name == m.Spec.PodMetricsEndpoints[0].Port && fmt.Sprint(p.ContainerPort) == port
	}) {
		t.Errorf("%s: ports %v; the monitor wants %q, and ibrun serves at %q", c.Name, c.Ports, m.Spec.PodMetricsEndpoints[0].Port, port)
	}
}

// checkRDMA checks a container that uses a device of a device plugin.
func checkRDMA(t *testing.T, c *core.Container) {
	t.Helper()
	found := false
	for name := range c.Resources.Limits {
		found = found || strings.HasPrefix(string(name), "rdma/")
	}
	if !found || !slices.Contains(c.SecurityContext.Capabilities.Add, "IPC_LOCK") {
		t.Errorf("%s: limits %v, capabilities %v", c.Name, c.Resources.Limits, c.SecurityContext.Capabilities.Add)
	}
}

// TestPage: the commands of docs/kubernetes.md name manifests that decode, and files that exist.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	decoded := 0
	commands := regexp.MustCompile(`(?m)^(kubectl apply|podman build) -f deploy/kubernetes/(\S+)`)
	for _, m := range commands.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "kubectl apply" {
			decoded += len(manifest(t, m[2]))
		} else if _, err := os.Stat(filepath.Join("..", m[2])); err != nil {
			t.Error(err)
		}
	}
	if decoded < 3 {
		t.Errorf("only %d objects in the manifests that docs/kubernetes.md names", decoded)
	}
}

func TestJob(t *testing.T) {
	objects := manifest(t, "job.yaml")
	service, job := objects[0].(*core.Service), objects[1].(*batch.Job)
	if service.Spec.ClusterIP != core.ClusterIPNone || !service.Spec.PublishNotReadyAddresses ||
		service.Spec.Selector[batch.JobNameLabel] != job.Name || service.Name != job.Spec.Template.Spec.Subdomain {
		t.Errorf("the service is %+v", service)
	}
	checkIndexed(t, &job.Spec, job.Name+"-0."+service.Name)
}

func TestJobSet(t *testing.T) {
	set := manifest(t, "jobset.yaml")[0].(*jobSet)
	network := &set.Spec.Network
	if !*network.EnableDNSHostnames || !*network.PublishNotReadyAddresses || set.Spec.FailurePolicy.MaxRestarts != 0 {
		t.Errorf("network %+v, %d restarts", network, set.Spec.FailurePolicy.MaxRestarts)
	}
	job := set.Spec.ReplicatedJobs[0]
	if len(set.Spec.ReplicatedJobs) != 1 || job.Replicas != 1 {
		t.Errorf("replicated jobs %+v", set.Spec.ReplicatedJobs)
	}
	checkIndexed(t, &job.Template.Spec, fmt.Sprintf("%s-%s-0-0.%s", set.Name, job.Name, network.Subdomain))
	checkRDMA(t, &job.Template.Spec.Template.Spec.Containers[0])
}

func TestMPIJob(t *testing.T) {
	job := manifest(t, "mpijob.yaml")[0].(*mpiJob)
	launcher, worker := job.Spec.MPIReplicaSpecs["Launcher"], job.Spec.MPIReplicaSpecs["Worker"]
	if len(job.Spec.MPIReplicaSpecs) != 2 || *launcher.Replicas != 1 || *job.Spec.RunPolicy.BackoffLimit != 0 ||
		!slices.Contains([]string{"OpenMPI", "Intel", "MPICH"}, job.Spec.MPIImplementation) ||
		!slices.Contains([]string{"AtStartup", "WaitForWorkersReady"}, job.Spec.LauncherCreationPolicy) ||
		!slices.Contains([]string{"None", "Running", "All"}, job.Spec.RunPolicy.CleanPodPolicy) {
		t.Errorf("the job is %+v", job.Spec)
	}
	checkPod(t, &launcher.Template.Spec)
	w := checkPod(t, &worker.Template.Spec)
	checkRDMA(t, w)
	checkScraped(t, worker.Template.Labels, w, launcher.Template.Spec.Containers[0].Args)
	if cpu := w.Resources.Requests.Cpu().Value(); cpu != int64(*job.Spec.SlotsPerWorker) {
		t.Errorf("%d slots for %d processors", *job.Spec.SlotsPerWorker, cpu)
	}
	// The images of launcher and workers are configured for the folder where the operator mounts the keys.
	for _, name := range []string{"ssh_config", "sshd_config"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil || !strings.Contains(string(text), job.Spec.SSHAuthMountPath+"/id_rsa") {
			t.Errorf("%s does not use the keys in %s: %v", name, job.Spec.SSHAuthMountPath, err)
		}
	}
}
