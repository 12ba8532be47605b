// Package convert converts manifests of Kubeflow's PyTorchJob, TFJob and MPIJob into job kinds of
// batch.tensorstack.dev. It is pure: it reads and writes no file, and it needs no cluster.
package convert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/cli/printable"
)

// Options are the options of a conversion.
type Options struct {
	// DeepSpeed is whether all MPIJobs train with DeepSpeed. By default, an MPIJob is converted only if its containers
	// show that it trains with DeepSpeed.
	DeepSpeed bool
}

// Object is one object of a manifest, with the result of its conversion.
type Object struct {
	// Kind and Name are those of the object in the manifest. Without a name, Name is the generateName of the object.
	Kind, Name string
	// Result is the kind of the result. It is empty if the object is not converted, because it is no job of Kubeflow or
	// because Err is set.
	Result string
	// Remarks explain the effects of the conversion on the fields of a job of Kubeflow. For an object of another kind,
	// they explain its references to Kubeflow.
	Remarks []Remark
	// Err explains why a job of Kubeflow cannot be converted.
	Err error

	// texts are the objects that the conversion returns, as YAML. The first one is the job. If the object is no job of
	// Kubeflow, texts has the text of the object in the manifest.
	texts [][]byte
}

// Manifest converts the objects of a manifest, which has any number of documents. It replaces a list by its items. If
// an object is no job of Kubeflow, Manifest returns it unchanged. An error means that the manifest itself cannot be
// read.
func Manifest(content []byte, options Options) ([]Object, error) {
	var objects []Object
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, printableError(err)
		}
		found, err := readDocument(document, options)
		if err != nil {
			return nil, printableError(err)
		}
		objects = append(objects, found...)
	}
}

// readDocument converts the objects of one document.
func readDocument(content []byte, options Options) ([]Object, error) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) { // there are only comments
		return commentsOf(content), nil
	}
	if err != nil {
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("two documents have the separator ... between them: use ---")
	}
	root := document.Content[0]
	if root.Tag == "!!null" && isNull(content) {
		return commentsOf(content), nil
	}
	_, kind := pair(root, "kind")
	if kind == nil || kind.Value == "" {
		return nil, fmt.Errorf("line %d: a document is no object of Kubernetes: it has no kind", root.Line)
	}
	_, items := pair(root, "items")
	if !strings.HasSuffix(kind.Value, "List") || items == nil || items.Kind != yaml.SequenceNode {
		return []Object{convertObject(content, &document, options)}, nil
	}
	var objects []Object
	for _, item := range items.Content {
		text, err := encode(dereferenced(item))
		if err != nil {
			return nil, err
		}
		found, err := readDocument(text, options)
		if err != nil {
			return nil, fmt.Errorf("an item of a %s: %w", kind.Value, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// isNull reports whether kubectl reads a document as null. The tag of the YAML node does not decide this: kubectl
// reads an empty value with the tag ! as a string, although the node of such a value has the tag !!null.
func isNull(content []byte) bool {
	var value any
	return kyaml.Unmarshal(content, &value) == nil && value == nil
}

// commentsOf returns a document that has only comments, as an object without a kind. It returns nil for an empty
// document.
func commentsOf(content []byte) []Object {
	if len(bytes.TrimSpace(content)) == 0 {
		return nil
	}
	return []Object{{texts: [][]byte{content}}}
}

// References to the page about conversions, and to sections of it. They are parts of messages.
const (
	guide      = "see kubectl train docs migrating-from-kubeflow"
	mpiGuide   = guide + " mpijob"
	trainGuide = guide + " trainjob"
)

// convertObject converts one object.
func convertObject(content []byte, document *yaml.Node, options Options) Object {
	root := document.Content[0]
	text := func(path string) string {
		if _, value := find(root, path); value != nil {
			return printable.Escaped(value.Value)
		}
		return ""
	}
	object := Object{Kind: text("kind"), Name: text("metadata.name"), texts: [][]byte{content}}
	if object.Name == "" {
		object.Name = text("metadata.generateName")
	}
	group, err := schema.ParseGroupVersion(text("apiVersion"))
	isKubeflow := err == nil && (group.Group == kubeflowGroup || strings.HasSuffix(group.Group, "."+kubeflowGroup))
	if !isKubeflow {
		var other any
		if err := kyaml.Unmarshal(content, &other); err != nil {
			object.Err = printableError(err)
		} else {
			object.Remarks = remarksOnOther(other)
		}
		return object
	}
	convert := converters[group.WithKind(object.Kind)]
	if convert == nil {
		object.Err = errUnknown(group.WithKind(object.Kind))
		return object
	}
	results, err := convert(content, root, options)
	if err != nil {
		object.Err = printableError(err)
		return object
	}
	object.texts = nil
	for i, r := range results {
		if err := r.remarkOnRejected(); err != nil {
			object.Err = printableError(err)
			return object
		}
		node, err := r.document(document)
		if err != nil {
			object.Err = err
			return object
		}
		if i == 0 {
			object.Result = r.kind()
			copyComments(node, document)
		}
		encoded, err := encode(node)
		if err != nil {
			object.Err = err
			return object
		}
		object.texts = append(object.texts, encoded)
		object.Remarks = append(object.Remarks, r.remarks...)
	}
	return object
}

// kubeflowGroup is the API group of Kubeflow. Some kinds are in groups below it.
const kubeflowGroup = "kubeflow.org"

// converter converts the text of an object, which is also given as a YAML node. The first result is the job.
type converter func([]byte, *yaml.Node, Options) ([]result, error)

// converterOf returns the converter of jobs whose spec has the type S.
func converterOf[S any](convert func(*conversion, kubeflowJob[S], Options) ([]result, error)) converter {
	return func(content []byte, manifest *yaml.Node, options Options) ([]result, error) {
		from, unknown, err := decode[S](content)
		if err != nil {
			return nil, err
		}
		c := &conversion{}
		results, err := convert(c, from, options)
		if err != nil {
			return nil, err
		}
		return results, c.unknown(from, manifest, unknown)
	}
}

// converters maps each kind of Kubeflow that can be converted to the function that converts it.
var converters = map[schema.GroupVersionKind]converter{
	{Group: kubeflowGroup, Version: "v1", Kind: "PyTorchJob"}:  converterOf(convertPyTorchJob),
	{Group: kubeflowGroup, Version: "v1", Kind: "TFJob"}:       converterOf(convertTFJob),
	{Group: kubeflowGroup, Version: "v1", Kind: "MPIJob"}:      converterOf(convertMPIJob),
	{Group: kubeflowGroup, Version: "v2beta1", Kind: "MPIJob"}: converterOf(convertMPIJob),
}

// errUnknown returns an error that explains why a kind of Kubeflow is not converted.
func errUnknown(kind schema.GroupVersionKind) error {
	name := kind.GroupVersion().String() + " " + kind.Kind
	for known := range converters {
		if known.Kind == kind.Kind {
			return fmt.Errorf("the version of %s is not known: PyTorchJob and TFJob of kubeflow.org/v1 are converted, "+
				"and MPIJob of kubeflow.org/v1 and kubeflow.org/v2beta1", name)
		}
	}
	if kind.Kind == "TrainJob" {
		return fmt.Errorf("most of a TrainJob is in its runtime: copy the settings of the runtime into a job by hand; "+
			"%s", trainGuide)
	}
	return fmt.Errorf("%s has no counterpart: only PyTorchJob, TFJob and MPIJob are converted; %s", name, guide)
}

// result is one object that a conversion returns, with the remarks on it.
type result struct {
	*conversion

	object runtime.Object
}

// kind returns the kind of the object.
func (r result) kind() string { return r.object.GetObjectKind().GroupVersionKind().Kind }

// document returns the object as a YAML document. Its comments are those of the manifest and the remarks.
func (r result) document(manifest *yaml.Node) (*yaml.Node, error) {
	root, err := nodeOf(r.object)
	if err != nil {
		return nil, err
	}
	remove(root, "status") // the JSON of an object has a status even if none is set
	_, version := pair(root, "apiVersion")
	remove(root, "apiVersion")
	root.Content = append([]*yaml.Node{{Kind: yaml.ScalarNode, Value: "apiVersion"}, version}, root.Content...)
	graft{manifest: manifest.Content[0], moved: r.moved}.onto(root, nil, "")
	if _, spec := pair(root, "spec"); spec != nil {
		spec.Style = 0 // use the block style, since a flow style cannot have comments
	}
	for _, remark := range r.remarks {
		comment(root, remark.near, wrapped(remark.String()))
	}
	return &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{root}}, nil
}

// remove removes a field from a mapping.
func remove(mapping *yaml.Node, name string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content = append(mapping.Content[:i], mapping.Content[i+2:]...)
			return
		}
	}
}

// YAML returns the objects as a manifest. An object with an error is replaced by a comment that explains the error.
func YAML(objects []Object) []byte {
	var b bytes.Buffer
	for _, object := range objects {
		texts := object.texts
		switch {
		case object.Err != nil:
			texts = [][]byte{[]byte(wrapped(fmt.Sprintf("Not converted: %s %s: %v", object.Kind, object.Name, object.Err)))}
		case object.Result == "":
			var text []byte
			for _, r := range object.Remarks {
				text = append(text, wrapped(r.String())+"\n"...)
			}
			texts = [][]byte{append(text, bytes.TrimPrefix(bytes.TrimSpace(texts[0]), []byte("---\n"))...)}
		}
		for _, text := range texts {
			if b.Len() > 0 {
				b.WriteString("---\n")
			}
			b.Write(bytes.TrimSpace(text))
			b.WriteString("\n")
		}
	}
	return b.Bytes()
}

// JSON returns the objects as JSON, without the remarks and without objects that have an error. Several objects
// become a List. JSON returns nil if no object is left.
func JSON(objects []Object) ([]byte, error) {
	var items []json.RawMessage
	for _, object := range objects {
		if object.Err != nil || object.Kind == "" {
			continue
		}
		for _, text := range object.texts {
			item, err := kyaml.YAMLToJSON(text)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
	}
	var result any = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	switch len(items) {
	case 0:
		return nil, nil
	case 1:
		result = items[0]
	}
	text, err := json.MarshalIndent(result, "", "    ")
	return append(text, '\n'), err
}
