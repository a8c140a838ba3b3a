//! The only interface to libyaml: parses text into events, and emits events as text.
//!
//! Everything unsafe of this crate is here. Parser and emitter are behind raw pointers for their whole life, because the library
//! keeps pointers into its own structures; they are never moved and never borrowed as a whole. The library detects the encoding
//! of the input, so that a byte order mark is treated as usual.

#![expect(unsafe_code, reason = "libyaml has a C interface; this module is its safe side")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use libyaml_rs as sys;

use crate::error::{Error, Kind, Mark, Report};

/// The maximum length of a text in bytes. The library's own size arithmetic aborts on overflow.
pub(crate) const MAX_INPUT: usize = 256 << 20;

/// An event of a document, with its position.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) data: EventData,
    pub(crate) start: Mark,
}

/// The type of an event.
#[derive(Debug)]
pub(crate) enum EventData {
    StreamStart,
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias { anchor: String },
    Scalar { anchor: Option<String>, tag: Option<String>, value: String, plain_implicit: bool },
    SequenceStart { anchor: Option<String>, tag: Option<String> },
    SequenceEnd,
    MappingStart { anchor: Option<String>, tag: Option<String> },
    MappingEnd,
}

// === impl Parser ===

/// A parser of one text.
pub(crate) struct Parser<'a> {
    raw: *mut sys::yaml_parser_t,
    name: &'a str,
    text: &'a [u8],
}

impl<'a> Parser<'a> {
    /// Starts to parse a text. Error messages contain the name.
    pub(crate) fn new(text: &'a [u8], name: &'a str) -> Result<Self, Error> {
        if text.len() > MAX_INPUT {
            return Err(Error::limit(name, format!("the text is longer than {MAX_INPUT} bytes")));
        }
        let raw = allocate::<sys::yaml_parser_t>();
        // SAFETY: `raw` is fresh, zeroed and of the right layout; the text outlives the parser by `'a`.
        unsafe {
            if !sys::yaml_parser_initialize(raw).ok {
                release(raw);
                return Err(Error::limit(name, "out of memory".into()));
            }
            sys::yaml_parser_set_input_string(raw, text.as_ptr(), text.len() as u64);
        }
        Ok(Parser { raw, name, text })
    }

    /// Returns the next event.
    pub(crate) fn next(&mut self) -> Result<Event, Error> {
        let mut event = MaybeUninit::<sys::yaml_event_t>::uninit();
        // SAFETY: the parser is initialised and exclusively ours; the library fills the event on success, and the
        // event is deleted exactly once after its strings were copied.
        unsafe {
            if !sys::yaml_parser_parse(self.raw, event.as_mut_ptr()).ok {
                return Err(self.error());
            }
            let event = event.as_mut_ptr();
            let start = mark(&(*event).start_mark);
            let data = read_event(event).map_err(|what| Error::decoding(self.name, what, start));
            sys::yaml_event_delete(event);
            Ok(Event { data: data?, start })
        }
    }

    /// The library reports invalid characters only by their offset.
    fn mark_of_byte(&self, offset: usize) -> Mark {
        let before = &self.text[..offset.min(self.text.len())];
        let line = before.split(|byte| *byte == b'\n').next_back().unwrap_or_default();
        let column = String::from_utf8_lossy(line).chars().count() as u64 + 1;
        Mark { line: before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1, column }
    }

    fn error(&self) -> Error {
        // SAFETY: the parser is initialised; its message pointers are null or static texts of the library.
        unsafe {
            let parser = &*self.raw;
            let problem = static_text(parser.problem).unwrap_or_default();
            // The word as libyaml 0.2.5 spells it, which the real Salt prints.
            let problem = problem.replace("expected hexadecimal number", "expected hexdecimal number");
            let kind = match parser.error {
                sys::YAML_READER_ERROR => {
                    let position = parser.problem_offset;
                    let at = self.mark_of_byte(usize::try_from(position).unwrap_or(usize::MAX));
                    return Error::reader(self.name, i64::from(parser.problem_value), position, problem, at);
                }
                sys::YAML_SCANNER_ERROR => Kind::Scanner,
                _ => Kind::Parser,
            };
            let context = static_text(parser.context);
            Error::from(Report {
                kind,
                name: self.name.to_owned(),
                context_mark: context.as_ref().map(|_| mark(&parser.context_mark)),
                context,
                problem,
                problem_mark: Some(mark(&parser.problem_mark)),
            })
        }
    }
}

impl Drop for Parser<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, deleted and released only here.
        unsafe {
            sys::yaml_parser_delete(self.raw);
            release(self.raw);
        }
    }
}

unsafe fn read_event(event: *const sys::yaml_event_t) -> Result<EventData, &'static str> {
    // SAFETY: the caller passes an event the parser has filled, so the union member follows from the type.
    unsafe {
        let data = &(*event).data;
        Ok(match (*event).type_ {
            sys::YAML_STREAM_START_EVENT => EventData::StreamStart,
            sys::YAML_DOCUMENT_START_EVENT => EventData::DocumentStart,
            sys::YAML_DOCUMENT_END_EVENT => EventData::DocumentEnd,
            sys::YAML_ALIAS_EVENT => EventData::Alias { anchor: c_text(data.alias.anchor)?.unwrap_or_default() },
            sys::YAML_SCALAR_EVENT => {
                let scalar = &data.scalar;
                let bytes = std::slice::from_raw_parts(scalar.value, scalar.length as usize);
                EventData::Scalar {
                    anchor: c_text(scalar.anchor)?,
                    tag: c_text(scalar.tag)?,
                    value: std::str::from_utf8(bytes).map_err(|_| "a value is not UTF-8")?.to_owned(),
                    plain_implicit: scalar.plain_implicit,
                }
            }
            sys::YAML_SEQUENCE_START_EVENT => {
                let start = &data.sequence_start;
                EventData::SequenceStart { anchor: c_text(start.anchor)?, tag: c_text(start.tag)? }
            }
            sys::YAML_SEQUENCE_END_EVENT => EventData::SequenceEnd,
            sys::YAML_MAPPING_START_EVENT => {
                let start = &data.mapping_start;
                EventData::MappingStart { anchor: c_text(start.anchor)?, tag: c_text(start.tag)? }
            }
            sys::YAML_MAPPING_END_EVENT => EventData::MappingEnd,
            _ => EventData::StreamEnd,
        })
    }
}

fn mark(raw: &sys::yaml_mark_t) -> Mark {
    Mark { line: raw.line + 1, column: raw.column + 1 }
}

unsafe fn static_text(text: *const i8) -> Option<String> {
    // SAFETY: null, or a NUL-terminated text of the library.
    unsafe { (!text.is_null()).then(|| CStr::from_ptr(text.cast()).to_string_lossy().into_owned()) }
}

unsafe fn c_text(text: *const u8) -> Result<Option<String>, &'static str> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, so a NUL-terminated text owned by the event.
    let text = unsafe { CStr::from_ptr(text.cast()) };
    text.to_str().map(|text| Some(text.to_owned())).map_err(|_| "a tag or an anchor is not UTF-8")
}

// === impl Emitter ===

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarStyle {
    /// The emitter chooses.
    Any,
    /// `|`.
    Literal,
}

/// A scalar to write.
pub(crate) struct Scalar<'a> {
    pub(crate) tag: &'a CStr,
    pub(crate) value: &'a str,
    pub(crate) plain_implicit: bool,
    pub(crate) quoted_implicit: bool,
    pub(crate) style: ScalarStyle,
}

/// A document that is being emitted. The library checks every event; a wrong order is an error, not a crash.
pub(crate) struct Emitter {
    raw: *mut sys::yaml_emitter_t,
    output: *mut Vec<u8>,
}

impl Emitter {
    /// Starts a document. The width is in columns; -1 means no limit.
    pub(crate) fn new(indent: i32, width: i32, unicode: bool) -> Result<Self, String> {
        let raw = allocate::<sys::yaml_emitter_t>();
        // SAFETY: `raw` is fresh, zeroed and of the right layout; `output` is a live heap pointer until `drop`.
        unsafe {
            if !sys::yaml_emitter_initialize(raw).ok {
                release(raw);
                return Err("out of memory".into());
            }
            let output = Box::into_raw(Box::<Vec<u8>>::default());
            sys::yaml_emitter_set_output(raw, append, output.cast());
            sys::yaml_emitter_set_unicode(raw, unicode);
            sys::yaml_emitter_set_indent(raw, indent);
            sys::yaml_emitter_set_width(raw, width);
            let mut emitter = Emitter { raw, output };
            emitter.emit(|event| sys::yaml_stream_start_event_initialize(event, sys::YAML_UTF8_ENCODING).ok)?;
            let none = ptr::null_mut();
            emitter
                .emit(|event| sys::yaml_document_start_event_initialize(event, ptr::null_mut(), none, none, true).ok)?;
            Ok(emitter)
        }
    }

    /// Writes a scalar.
    pub(crate) fn scalar(&mut self, scalar: &Scalar<'_>) -> Result<(), String> {
        // The library counts in C's int.
        let length = i32::try_from(scalar.value.len()).map_err(|_| "a text is longer than 2 GiB")?;
        let style = match scalar.style {
            ScalarStyle::Any => sys::YAML_ANY_SCALAR_STYLE,
            ScalarStyle::Literal => sys::YAML_LITERAL_SCALAR_STYLE,
        };
        // SAFETY: tag is NUL-terminated, value has the given length; the library copies both.
        self.emit(|event| unsafe {
            let (tag, value) = (scalar.tag.as_ptr().cast(), scalar.value.as_ptr());
            let (plain, quoted) = (scalar.plain_implicit, scalar.quoted_implicit);
            sys::yaml_scalar_event_initialize(event, ptr::null(), tag, value, length, plain, quoted, style).ok
        })
    }

    /// Opens a list.
    pub(crate) fn start_sequence(&mut self, flow: bool) -> Result<(), String> {
        let style = if flow { sys::YAML_FLOW_SEQUENCE_STYLE } else { sys::YAML_BLOCK_SEQUENCE_STYLE };
        // SAFETY: null anchor and tag are allowed for an implicit node.
        self.emit(|event| unsafe {
            sys::yaml_sequence_start_event_initialize(event, ptr::null(), ptr::null(), true, style).ok
        })
    }

    /// Closes a list.
    pub(crate) fn end_sequence(&mut self) -> Result<(), String> {
        // SAFETY: fills the event it is given.
        self.emit(|event| unsafe { sys::yaml_sequence_end_event_initialize(event).ok })
    }

    /// Opens a map.
    pub(crate) fn start_mapping(&mut self, flow: bool) -> Result<(), String> {
        let style = if flow { sys::YAML_FLOW_MAPPING_STYLE } else { sys::YAML_BLOCK_MAPPING_STYLE };
        // SAFETY: null anchor and tag are allowed for an implicit node.
        self.emit(|event| unsafe {
            sys::yaml_mapping_start_event_initialize(event, ptr::null(), ptr::null(), true, style).ok
        })
    }

    /// Closes a map.
    pub(crate) fn end_mapping(&mut self) -> Result<(), String> {
        // SAFETY: fills the event it is given.
        self.emit(|event| unsafe { sys::yaml_mapping_end_event_initialize(event).ok })
    }

    /// Ends the document and returns its text.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        // SAFETY: both fill the event they are given.
        self.emit(|event| unsafe { sys::yaml_document_end_event_initialize(event, true).ok })?;
        self.emit(|event| unsafe { sys::yaml_stream_end_event_initialize(event).ok })?;
        // SAFETY: the emitter is initialised; `output` is live and nothing else refers to it during the take.
        let bytes = unsafe {
            // The library buffers its output; without the flush the end is missing.
            if !sys::yaml_emitter_flush(self.raw).ok {
                return Err(self.problem());
            }
            std::mem::take(&mut *self.output)
        };
        String::from_utf8(bytes).map_err(|_| "the emitter wrote a text that is not UTF-8".into())
    }

    fn emit(&mut self, fill: impl FnOnce(*mut sys::yaml_event_t) -> bool) -> Result<(), String> {
        let mut event = MaybeUninit::<sys::yaml_event_t>::uninit();
        if !fill(event.as_mut_ptr()) {
            return Err("out of memory or not UTF-8".into());
        }
        // SAFETY: the event is filled; the emitter takes its ownership, also when it fails.
        unsafe { if sys::yaml_emitter_emit(self.raw, event.as_mut_ptr()).ok { Ok(()) } else { Err(self.problem()) } }
    }

    fn problem(&self) -> String {
        // SAFETY: the emitter is initialised; the pointer is null or a static text.
        unsafe { static_text((&*self.raw).problem) }.unwrap_or_else(|| "unknown emitter error".into())
    }
}

impl Drop for Emitter {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, deleted and released only here, the output after its last user.
        unsafe {
            sys::yaml_emitter_delete(self.raw);
            release(self.raw);
            drop(Box::from_raw(self.output));
        }
    }
}

unsafe fn append(output: *mut c_void, bytes: *mut u8, size: u64) -> i32 {
    // SAFETY: `output` is the vector set in `Emitter::new`, and the library passes a buffer of that size.
    unsafe { (*output.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(bytes, size as usize)) };
    1
}

/// Creates a tag for the emitter; `None` if it contains a NUL.
pub(crate) fn tag(text: &str) -> Option<CString> {
    CString::new(text).ok()
}

fn allocate<T>() -> *mut T {
    let layout = Layout::new::<T>();
    // SAFETY: neither structure is zero-sized.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory.cast()
}

/// SAFETY: the pointer must come from [`allocate`] of the same type and not be used afterwards.
unsafe fn release<T>(memory: *mut T) {
    // SAFETY: promised by the caller.
    unsafe { dealloc(memory.cast(), Layout::new::<T>()) };
}
