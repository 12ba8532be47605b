package model

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
)

type nested struct {
	A int    `json:"a,omitempty"`
	B string `json:"b,omitempty"`
}

type inlined struct {
	Kind string `json:"kind,omitempty"`
}

type patched struct {
	inlined `json:",inline"`

	Number  int      `json:"number,omitempty"`
	List    []nested `json:"list,omitempty"`
	Object  nested   `json:"object"`
	Pointer *nested  `json:"pointer,omitempty"`
}

func TestMergedIsAMergePatch(t *testing.T) {
	t.Parallel()
	value := patched{
		inlined: inlined{Kind: "k"}, Number: 1, List: []nested{{A: 1, B: "b"}, {A: 2}},
		Object: nested{A: 1, B: "b"}, Pointer: &nested{A: 1, B: "b"},
	}
	before, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, patch := range map[string]string{
		"an empty patch changes nothing":          `{}`,
		"a number is replaced":                    `{"number": 2}`,
		"a number is removed":                     `{"number": null}`,
		"a list is replaced":                      `{"list": [{"a": 3}]}`,
		"a list is removed":                       `{"list": null}`,
		"an object is merged":                     `{"object": {"a": null, "b": "c"}}`,
		"the object behind a pointer is merged":   `{"pointer": {"b": null}}`,
		"a pointer is removed":                    `{"pointer": null}`,
		"an inlined field is replaced":            `{"kind": "l"}`,
		"an unknown key is ignored":               `{"other": {"a": 1}}`,
		"several fields change in different ways": `{"number": null, "list": [], "object": {"b": "c"}, "pointer": {"a": 7}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document, err := jsonpatch.MergePatch(before, []byte(patch))
			if err != nil {
				t.Fatal(err)
			}
			var want patched
			if err := json.Unmarshal(document, &want); err != nil {
				t.Fatal(err)
			}
			var changes map[string]json.RawMessage
			if err := json.Unmarshal([]byte(patch), &changes); err != nil {
				t.Fatal(err)
			}
			got, err := merged(value, changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(patched{})); diff != "" {
				t.Errorf("the patched value is not as expected (-want +got):\n%s", diff)
			}
		})
	}
	after, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Errorf("the patch changes the original value from %s to %s", before, after)
	}
}
