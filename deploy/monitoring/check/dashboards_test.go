package check

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// decode decodes a dashboard into the types of Grafana. Unknown fields are errors, also in the options of panels and in queries, and
// so are fields that are missing.
func decode(text []byte) (d dashboard.Dashboard, err error) {
	plugins.RegisterDefaultPlugins()
	if err := failure(new(dashboard.Dashboard).UnmarshalJSONStrict(text)); err != nil {
		return d, err
	}
	var raw struct {
		Panels []struct{ FieldConfig json.RawMessage }
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return d, err
	}
	for _, p := range raw.Panels { // this part the library has not decoded strictly
		if err := failure(new(dashboard.FieldConfigSource).UnmarshalJSONStrict(p.FieldConfig)); err != nil {
			return d, err
		}
	}
	return d, json.Unmarshal(text, &d) // the strict decoding drops panels
}

// failure returns nil for an error without reasons, which the strict decoding returns on success.
func failure(err error) error {
	if reasons, ok := err.(cog.BuildErrors); ok && len(reasons) == 0 {
		return nil
	}
	return err
}

// dashboards returns the text of each dashboard by its file.
func dashboards(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../../docs/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		if all[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestDashboards: every dashboard decodes strictly, begins with a row of headline figures, has panels that do not overlap, and
// links only to dashboards that exist. Every variable in a query is one of the dashboard.
func TestDashboards(t *testing.T) {
	known := map[string]bool{}
	for name, text := range dashboards(t) {
		d, err := decode(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		known[*d.Uid] = true
	}
	for name, text := range dashboards(t) {
		d, err := decode(text)
		if err != nil {
			t.Fatal(err)
		}
		checkPanels(t, name, d)
		for rest := string(text); ; {
			_, after, found := strings.Cut(rest, `"/d/`)
			if !found {
				break
			}
			uid, _, _ := strings.Cut(strings.SplitN(after, `"`, 2)[0], "?")
			if !known[uid] {
				t.Errorf("%s: there is no dashboard %s", name, uid)
			}
			rest = after
		}
	}
}

func checkPanels(t *testing.T, name string, d dashboard.Dashboard) {
	t.Helper()
	if len(d.Panels) < 5 || d.Panels[0].RowPanel == nil || d.Panels[1].Panel == nil || d.Panels[1].Panel.Type != "stat" {
		t.Fatalf("%s does not begin with a row of headline figures", name)
	}
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	taken := map[[2]uint32]string{}
	ids := map[uint32]bool{}
	for _, p := range d.Panels {
		if p.Panel == nil {
			continue
		}
		title := *p.Panel.Title
		if ids[*p.Panel.Id] {
			t.Errorf("%s: two panels have the id %d", name, *p.Panel.Id)
		}
		ids[*p.Panel.Id] = true
		if p.Panel.Description == nil || *p.Panel.Description == "" || len(p.Panel.Targets) == 0 {
			t.Errorf("%s: panel %s has no description or no query", name, title)
		}
		g := p.Panel.GridPos
		for y := range g.H {
			for x := range g.W {
				at := [2]uint32{g.X + x, g.Y + y}
				if other := taken[at]; other != "" || at[0] > 23 {
					t.Fatalf("%s: the panels %s and %s overlap, or are outside of the page", name, title, other)
				}
				taken[at] = title
			}
		}
		queries, err := json.Marshal(p.Panel.Targets)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Split(string(queries), "$")[1:] {
			v := strings.FieldsFunc(word, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })[0]
			if !variables[v] {
				t.Errorf("%s: panel %s uses the variable %s", name, title, v)
			}
		}
	}
}

// TestStrict: an unknown field is rejected at every depth, so TestDashboards finds misspelt ones.
func TestStrict(t *testing.T) {
	text := string(dashboards(t)["job.json"])
	for _, before := range []string{`"uid": "ibrun-job"`, `"gridPos": {`, `"reduceOptions": {`, `"expr": `, `"thresholds": {`,
		`"custom": {`, `"legend": {`, `"templating": {`} {
		head, tail, found := strings.Cut(text, before)
		if !found {
			t.Fatalf("no %s in the dashboard", before)
		}
		changed := head + `"misspelt": 1, ` + before + tail
		if strings.HasSuffix(before, "{") {
			changed = head + before + `"misspelt": 1, ` + strings.TrimSpace(tail)
		}
		if _, err := decode([]byte(changed)); err == nil || !strings.Contains(fmt.Sprint(err), "misspelt") {
			t.Errorf("an unknown field at %s: %v", before, err)
		}
	}
}
