{{- define "scstream.name" -}}
{{- if contains "scstream" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-scstream{{ end -}}
{{- end }}

{{/* What a selector chooses by: (list root component). */}}
{{- define "scstream.selector" -}}
app.kubernetes.io/name: scstream
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "scstream.labels" -}}
{{ include "scstream.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "scstream.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/* What both pods have: no rights, no token of the API. */}}
{{- define "scstream.pod" -}}
automountServiceAccountToken: false
{{- with .Values.serviceAccount }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Spread pods over nodes: (list root component). */}}
{{- define "scstream.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "scstream.selector" . | nindent 8 }}
{{- end }}

{{/* What both containers have. */}}
{{- define "scstream.container" -}}
image: {{ include "scstream.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "scstream.envFrom" -}}
{{- with . }}
envFrom:
  {{- range . }}
  - secretRef: {name: {{ . }}}
  {{- end }}
{{- end }}
{{- end }}

{{/* Probes of a port: (list port live ready). The kubelet sends them to the address of the pod. */}}
{{- define "scstream.probes" -}}
startupProbe:
  httpGet: {path: {{ index . 1 }}, port: {{ index . 0 }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: {{ index . 1 }}, port: {{ index . 0 }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: {{ index . 2 }}, port: {{ index . 0 }}}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* Rules for what a part may reach: (list of entries). */}}
{{- define "scstream.egress" -}}
{{- $ports := dict "nats" (list 4222) "kafka" (list 9092 9093) "redis" (list 6379 6380) "postgres" (list 5432) "qdrant" (list 6333 6334) "otlp" (list 4317 4318) "https" (list 443) -}}
{{- range . }}
- to: # {{ .connector }}
    {{- if .namespace }}
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
      {{- with .pods }}
      podSelector:
        matchLabels: {{- toYaml . | nindent 10 }}
      {{- end }}
    {{- else if .cidr }}
    - ipBlock: {cidr: {{ .cidr | quote }}}
    {{- else }}
    - ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
    - ipBlock: {cidr: "::/0", except: ["fd00:ec2::254/128", "fe80::/10"]}
    {{- end }}
  ports:
    {{- range .ports | default (get $ports .connector) }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end }}

{{/* Stop a release that cannot work with a sentence. */}}
{{- define "scstream.check" -}}
{{- if and (hasPrefix "/" .Values.checkpoints) .Values.service.enabled .Values.pipeline.enabled (not .Values.volume.existingClaim) }}
{{- fail "checkpoints is a folder, which the replicas cannot read: give volume.existingClaim, a claim that several pods can mount, or an s3:// address." }}
{{- end }}
{{- if and (hasPrefix "/" .Values.checkpoints) .Values.pipeline.standby (not .Values.volume.existingClaim) }}
{{- fail "pipeline.standby needs checkpoints that both pods can reach: give volume.existingClaim or an s3:// address." }}
{{- end }}
{{- end }}

{{- define "scstream.dns" -}}
- to: # names
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .namespace }}}
    {{- with .nodeLocal }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end }}
