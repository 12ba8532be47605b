package convert

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// FuzzManifest expects that the result of any manifest has exactly the objects that the conversion reports. It finds
// texts of a manifest that break out of a comment and become an object.
func FuzzManifest(f *testing.F) {
	for _, file := range manifests(f) {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		objects, err := Manifest(content, Options{DeepSpeed: true})
		if err != nil {
			return
		}
		want := 0
		for _, object := range objects {
			switch {
			case object.Kind == "" || object.Err != nil:
			case object.Result == "":
				want++
			default:
				want += len(object.texts)
			}
		}
		result := YAML(objects)
		got := 0
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(result)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var object map[string]any
			if err := yaml.Unmarshal(document, &object); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			if object != nil {
				got++
			}
		}
		if got != want {
			t.Errorf("the result has %d objects, want %d:\n%s", got, want, result)
		}
		if _, err := JSON(objects); err != nil {
			t.Error(err)
		}
	})
}
