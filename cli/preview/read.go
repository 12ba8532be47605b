// Package preview shows what the job controllers create for the jobs in manifests. It needs no cluster: it validates
// the manifests as the API server does, and the code of the controllers builds the objects.
package preview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/manifest"
)

// Document is a manifest of one object, in YAML or JSON.
type Document struct {
	// Source is where the document is, such as "job.yaml" or "job.yaml, document 2".
	Source string
	// Kind, Namespace and Name identify the object. The namespace and the name can be empty.
	Kind            schema.GroupVersionKind
	Namespace, Name string
	// Content is the text of the document.
	Content []byte
}

// Read returns the documents in files and folders. The path "-" is the standard input. In a folder, Read reads the
// manifests, and enters subfolders only if recursive is true. If a document has an error, Read returns the error and
// the documents that it could read.
func Read(paths []string, recursive bool, stdin io.Reader) ([]Document, error) {
	var documents []Document
	err := manifest.Each(paths, recursive, stdin, func(name string, content []byte) error {
		found, err := split(name, content)
		documents = append(documents, found...)
		return err
	})
	return documents, err
}

// split returns the documents in a text. It leaves out documents without content, and returns the items of a List as
// separate documents. If a document has an error, split returns the error and the documents that it could read.
func split(source string, text []byte) ([]Document, error) {
	contents, err := contentsOf(text)
	var documents []Document
	errs := []error{err}
	for i, content := range contents {
		from, number := source, ""
		if len(contents) > 1 {
			number = fmt.Sprintf("document %d", i+1)
			from += ", " + number
		}
		found, err := documentsIn(from, content)
		if err != nil && number != "" {
			err = fmt.Errorf("%s: %w", number, err)
		}
		documents, errs = append(documents, found...), append(errs, err)
	}
	return documents, errors.Join(errs...)
}

// documentsIn returns the document with the given content. If the content is a List, it returns a document for each
// item.
func documentsIn(source string, content []byte) ([]Document, error) {
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(content, &object.Object); err != nil {
		return nil, err
	}
	if object.GetKind() == "" {
		return nil, errors.New("the object has no kind")
	}
	if object.GetAPIVersion() != "v1" || object.GetKind() != "List" {
		return []Document{{
			Source: source, Kind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
			Content: content,
		}}, nil
	}
	var documents []Document
	items, _, err := unstructured.NestedSlice(object.Object, "items")
	for i, item := range items {
		from := fmt.Sprintf("%s, item %d", source, i+1)
		content, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		found, err := documentsIn(from, content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		documents = append(documents, found...)
	}
	return documents, err
}

// contentsOf returns the documents in a text, without empty ones. If a document has an error, contentsOf returns the
// error and the documents before it.
func contentsOf(text []byte) ([][]byte, error) {
	buffered, _, isJSON := utilyaml.GuessJSONStream(bytes.NewReader(text), 4096)
	next := utilyaml.NewYAMLReader(bufio.NewReader(buffered)).Read
	if isJSON {
		decoder := json.NewDecoder(buffered)
		next = func() ([]byte, error) {
			var content json.RawMessage
			return content, decoder.Decode(&content)
		}
	}
	var contents [][]byte
	for {
		content, err := next()
		if errors.Is(err, io.EOF) {
			return contents, nil
		}
		if err != nil {
			return contents, err
		}
		asJSON, err := yaml.YAMLToJSON(content)
		if err != nil {
			return contents, fmt.Errorf("document %d: %w", len(contents)+1, err)
		}
		if !bytes.Equal(asJSON, []byte("null")) {
			contents = append(contents, content)
		}
	}
}
