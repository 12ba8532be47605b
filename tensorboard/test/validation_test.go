package test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("An invalid TensorBoard", func() {
	DescribeTable("is rejected with a message that names the field if it has",
		func(ctx context.Context, spec, field, message string) {
			err := plane.Client.Create(ctx, manifest("default", spec), client.DryRunAll)
			Expect(err).To(MatchError(And(ContainSubstring(field), ContainSubstring(message))))
		},
		Entry("no sources", `{}`, "spec", "there are no logs to show: set trainingLogFilesets or logDir"),
		Entry("an empty logDir", `logDir: {}`, "spec", "there are no logs to show"),
		Entry("a fileset with an unknown type", `trainingLogFilesets: ["t9k://nfs/x"]`, "spec.trainingLogFilesets[0]",
			"a fileset must look like t9k://pvc/"),
		Entry("a fileset outside of its claim", `trainingLogFilesets: ["t9k://pvc/data/../other"]`,
			"spec.trainingLogFilesets[0]", "'..' is not allowed"),
		Entry("a folder outside of its claim", `logDir: {pvc: [{name: data, subPath: [a/../../b]}]}`,
			"spec.logDir.pvc[0].subPath[0]", "'..' are not allowed"),
		Entry("an absolute path of a folder", `logDir: {pvc: [{name: data, subPath: [/etc]}]}`,
			"spec.logDir.pvc[0].subPath[0]", "must be relative"),
		Entry("a duplicate claim", `logDir: {pvc: [{name: data}, {name: data}]}`, "spec.logDir.pvc[1]", "Duplicate value"),
		Entry("an S3 folder with another scheme", `logDir: {s3: {secretRef: {name: keys}, uri: ["https://bucket"]}}`,
			"spec.logDir.s3.uri[0]", "an S3 folder must look like s3://"),
		Entry("an S3 folder outside of its bucket", `logDir: {s3: {secretRef: {name: keys}, uri: ["s3://bucket/.."]}}`,
			"spec.logDir.s3.uri[0]", "'..' is not allowed"),
		Entry("an S3 source without credentials", `logDir: {s3: {secretRef: {}, uri: ["s3://bucket"]}}`,
			"spec.logDir.s3.secretRef", "secretRef.name is required"),
		Entry("a folder in the name of a claim", `logDir: {pvc: [{name: data/logs}]}`, "spec.logDir.pvc[0].name",
			"to select folders in the claim, use subPath"),
		Entry("an S3 source without folders", `logDir: {s3: {secretRef: {name: keys}, uri: []}}`, "spec.logDir.s3.uri",
			"should have at least 1 items"),
		Entry("a URL with a password", `logDir: {http: {url: ["https://me:secret@host/file"]}}`,
			"spec.logDir.http.url[0]", "without a user name, password"),
		Entry("a URL with a signature", `logDir: {http: {url: ["https://host/file?sig=secret"]}}`,
			"spec.logDir.http.url[0]", "or query"),
		Entry("a URL with another scheme", `logDir: {http: {url: ["ftp://host/file"]}}`, "spec.logDir.http.url[0]",
			"must look like http://"),
		Entry("a URL without a file", `logDir: {http: {url: ["http://host/"]}}`, "spec.logDir.http.url[0]",
			"must look like http://"),
		Entry("more than 64 filesets", `trainingLogFilesets: [`+strings.Repeat(`"t9k://pvc/a", `, 65)+`]`,
			"spec.trainingLogFilesets", "must have at most 64 items"),
		Entry("an image whose name is too long", remote+"image: "+strings.Repeat("a", 4097),
			"spec.image", "may not be more than 4096 bytes"),
		Entry("more than 64 resource claims", remote+`resources: {claims: [`+strings.Repeat(`{name: a}, `, 65)+`]}`,
			"spec.resources.claims", "must have at most 64 items"),
		Entry("a priority that is out of range", remote+"scheduler: {t9kScheduler: {queue: q, priority: 101}}",
			"spec.scheduler.t9kScheduler.priority", "less than or equal to 100"),
	)

	DescribeTable("is rejected if its name", func(ctx context.Context, name string) {
		tb := manifest("default", remote)
		tb.SetName(name)
		Expect(
			plane.Client.Create(ctx, tb, client.DryRunAll),
		).To(MatchError(ContainSubstring("metadata.name must be a DNS-1035 label of at most 60 characters")))
	},
		Entry("contains a dot", "qwen2.5"),
		Entry("begins with a digit", "1st"),
		Entry("is too long", strings.Repeat("a", 61)),
	)

	It("is rejected if the scheduler changes", func(ctx context.Context) {
		tb := create(ctx, newNamespace(ctx), remote)
		tb.Spec.Scheduler = nil
		err := plane.Client.Patch(ctx, tb,
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"scheduler":{"t9kScheduler":{"queue":"q"}}}}`)))
		Expect(err).To(MatchError(ContainSubstring("scheduler cannot be changed")))
	})
})
