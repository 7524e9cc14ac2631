package check

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"go.yaml.in/yaml/v4"
)

// TestCompose: the library of Docker Compose loads the file, and what the containers mount exists.
func TestCompose(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	p, err := o.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	mounts := map[string]string{}
	for _, name := range []string{"prometheus", "grafana"} {
		s, err := p.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.Image, ":v") && !strings.Contains(s.Image, ":1") {
			t.Errorf("%s: the version of the image %s is not fixed", name, s.Image)
		}
		for _, v := range s.Volumes {
			mounts[v.Target] = v.Source
			if v.Type != "bind" {
				if _, ok := p.Volumes[v.Source]; !ok {
					t.Errorf("%s: there is no volume %s", name, v.Source)
				}
			} else if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: the source of %s: %v, or it is writable", name, v.Target, err)
			}
		}
	}
	checkPrometheus(t, mounts)
	checkProvisioning(t, mounts)
}

// checkPrometheus lets promtool check the configuration with the files where the container has them.
func checkPrometheus(t *testing.T, mounts map[string]string) {
	t.Helper()
	text, err := os.ReadFile(mounts["/etc/prometheus/prometheus.yml"])
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for _, target := range []string{"/etc/prometheus/rules.yml", "/etc/prometheus/targets"} {
		config = strings.ReplaceAll(config, target, mounts[target])
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if strings.Contains(config, " /etc/prometheus") || strings.Contains(config, `"/etc/prometheus`) {
		t.Errorf("the configuration names a file that is not mounted:\n%s", config)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "config", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// The files of Grafana's provisioning, as its documentation describes them.
type datasources struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, UID, Type, Access, URL string
		IsDefault                    bool `yaml:"isDefault"`
		Editable                     bool
		JSONData                     struct {
			HTTPMethod   string `yaml:"httpMethod"`
			TimeInterval string `yaml:"timeInterval"`
		} `yaml:"jsonData"`
	}
}

type providers struct {
	APIVersion int `yaml:"apiVersion"`
	Providers  []struct {
		Name, Folder, Type    string
		DisableDeletion       bool `yaml:"disableDeletion"`
		AllowUIUpdates        bool `yaml:"allowUiUpdates"`
		UpdateIntervalSeconds int  `yaml:"updateIntervalSeconds"`
		Options               struct{ Path string }
	}
}

// checkProvisioning decodes the files strictly; the dashboards are where the provider looks for them.
func checkProvisioning(t *testing.T, mounts map[string]string) {
	t.Helper()
	var sources datasources
	var dashboards providers
	for name, to := range map[string]any{"datasources/prometheus.yaml": &sources, "dashboards/ibrun.yaml": &dashboards} {
		text, err := os.ReadFile(filepath.Join(mounts["/etc/grafana/provisioning"], name))
		if err != nil {
			t.Fatal(err)
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(to); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || !sources.Datasources[0].IsDefault {
		t.Errorf("the data sources are %+v", sources)
	}
	if len(dashboards.Providers) != 1 {
		t.Fatalf("the providers are %+v", dashboards)
	}
	path := mounts[dashboards.Providers[0].Options.Path]
	if files, err := filepath.Glob(filepath.Join(path, "*.json")); err != nil || len(files) != 3 {
		t.Errorf("the provider finds %v, %v", files, err)
	}
}
