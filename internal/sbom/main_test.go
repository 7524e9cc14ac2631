package main

import (
	"encoding/json"
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	got, err := json.Marshal(describe(&debug.BuildInfo{
		GoVersion: "go1.26.0",
		Main:      debug.Module{Path: "example.com/a", Version: "v1.0.0"},
		Deps: []*debug.Module{
			{Path: "example.com/b", Version: "v2.0.0"},
			{Path: "example.com/c", Version: "v3.0.0", Replace: &debug.Module{Path: "example.com/d", Version: "v4.0.0"}},
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"bomFormat":"CycloneDX","specVersion":"1.6","version":1,` +
		`"metadata":{"component":{"bom-ref":"pkg:golang/example.com/a@v1.0.0","type":"application","name":"example.com/a",` +
		`"version":"v1.0.0","purl":"pkg:golang/example.com/a@v1.0.0"}},"components":[` +
		`{"bom-ref":"pkg:golang/example.com/b@v2.0.0","type":"library","name":"example.com/b","version":"v2.0.0",` +
		`"purl":"pkg:golang/example.com/b@v2.0.0"},` +
		`{"bom-ref":"pkg:golang/example.com/d@v4.0.0","type":"library","name":"example.com/d","version":"v4.0.0",` +
		`"purl":"pkg:golang/example.com/d@v4.0.0"},` +
		`{"bom-ref":"pkg:golang/std@1.26.0","type":"library","name":"std","version":"1.26.0","purl":"pkg:golang/std@1.26.0"}],` +
		`"dependencies":[{"ref":"pkg:golang/example.com/a@v1.0.0","dependsOn":["pkg:golang/example.com/b@v2.0.0",` +
		`"pkg:golang/example.com/d@v4.0.0","pkg:golang/std@1.26.0"]}]}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
