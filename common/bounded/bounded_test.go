package bounded

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestList(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text    string
		want    []string
		wantErr string
	}{
		"the maximum number of items is read": {text: `["a","b"]`, want: []string{"a", "b"}},
		"an empty list has no items":          {text: `[]`},
		"null has no items":                   {text: `null`},
		"one more item is an error":           {text: `["a","b","c"]`, wantErr: "there are more than 2 letters"},
		"a truncated list is an error":        {text: `["a"`, wantErr: "EOF"},
		"an object is an error":               {text: `{"a":"b"}`, wantErr: "the letters must be a list, but begin with {"},
		"an item of another type is an error": {
			text: `[1]`, wantErr: "json: cannot unmarshal number into Go value of type string",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := List[string]([]byte(tc.text), 2, "letters")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected items (-want +got):\n%s", diff)
			}
			gotErr := ""
			if err != nil {
				gotErr = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, gotErr); diff != "" {
				t.Errorf("unexpected error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	from := map[string]string{"a": "1", "b": "12345", "c": "3"}
	for name, tc := range map[string]struct {
		names []string
		want  map[string]string
	}{
		"only named entries are kept":         {names: []string{"a", "d"}, want: map[string]string{"a": "1"}},
		"a value that is too long is cut":     {names: []string{"b"}, want: map[string]string{"b": "1..."}},
		"there is no map if no entry is kept": {names: []string{"d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, Pick(from, tc.names, 4)); diff != "" {
				t.Errorf("unexpected entries (-want +got):\n%s", diff)
			}
		})
	}
}
