//! The half of the parser for statements.

use super::parser::Parser;
use super::token::Kind;
use super::tree::{Args, Expr, ExprKind, For, If, MacroDef, Stmt, StmtKind};
use crate::env::TagKind;
use crate::error::Error;
use crate::python::repr_str;
use crate::value::Str;

type Parsed = Result<Stmt, Error>;

fn stmt(line: u32, kind: StmtKind) -> Stmt {
    Stmt { line, kind }
}

impl Parser<'_> {
    /// Parses the statement of a tag, without the sign that ends the tag.
    pub fn statement(&mut self) -> Result<Vec<Stmt>, Error> {
        let token = self.current.clone();
        if token.kind != Kind::Name {
            return self.fail("tag name expected", token.line);
        }
        self.tag_stack.push(token.text.clone());
        let parsed = self.known_statement(&token.text)?;
        let tag = self.tag_stack.pop();
        match parsed {
            Some(statements) => Ok(statements),
            None => self.fail_unfinished(tag.as_deref(), token.line),
        }
    }

    fn known_statement(&mut self, tag: &str) -> Result<Option<Vec<Stmt>>, Error> {
        let one = match tag {
            "for" => self.for_statement()?,
            "if" => self.if_statement()?,
            "block" => self.block()?,
            "extends" => {
                let line = self.advance()?.line;
                stmt(line, StmtKind::Extends(self.expression(true)?))
            }
            "print" => self.print()?,
            "macro" => self.macro_definition()?,
            "include" => self.include()?,
            "from" => self.import_names()?,
            "import" => self.import()?,
            "set" => self.set()?,
            "with" => self.with()?,
            "autoescape" => {
                let line = self.advance()?.line;
                let option = self.expression(true)?;
                stmt(line, StmtKind::Scope(option, self.statements(&["endautoescape"], true)?))
            }
            "call" => self.call_block()?,
            "filter" => {
                let line = self.advance()?.line;
                let Some(filter) = self.filter(None, true)? else {
                    return self.fail("expected a filter", line);
                };
                stmt(line, StmtKind::FilterBlock(filter, self.statements(&["endfilter"], true)?))
            }
            _ => return self.extension_statement(tag),
        };
        Ok(Some(vec![one]))
    }

    fn extension_statement(&mut self, tag: &str) -> Result<Option<Vec<Stmt>>, Error> {
        let line = self.current.line;
        let kind = match tag {
            "do" if self.env.do_tag => {
                self.advance()?;
                StmtKind::Do(self.tuple(true, false)?)
            }
            "break" if self.env.loop_controls => {
                self.advance()?;
                StmtKind::Break
            }
            "continue" if self.env.loop_controls => {
                self.advance()?;
                StmtKind::Continue
            }
            _ => match self.env.tags.get(tag).cloned() {
                Some(TagKind::Load { filter, end }) => return self.load_tag(&filter, end).map(Some),
                Some(TagKind::Import { filter }) => return self.import_tag(&filter).map(Some),
                Some(TagKind::Labelled { end }) => return self.labelled(end).map(Some),
                None => return Ok(None),
            },
        };
        Ok(Some(vec![stmt(line, kind)]))
    }

    /// `{% tag as target %}…{% end %}`: the body becomes a macro, its text goes through a filter.
    fn load_tag(&mut self, filter: &Str, end: &'static [&'static str]) -> Result<Vec<Stmt>, Error> {
        let line = self.advance()?.line;
        self.expect_name("as")?;
        let target = self.assign_target(false)?;
        self.last_identifier += 1;
        // The body becomes a macro so that its variables stay local and its text is not printed. The name is the one
        // Salt's extension generates; the underscore keeps it out of imports.
        let name: Str = format!("_fi{}", self.last_identifier).into();
        let body = self.statements(end, true)?;
        let definition = MacroDef { name: Some(name.clone()), params: Vec::new(), defaults: Vec::new(), body };
        let callee = Expr { line, kind: ExprKind::Name(name) };
        let call = Expr { line, kind: ExprKind::Call(Box::new(callee), Args::default()) };
        let value = Expr { line, kind: ExprKind::Filter(Some(Box::new(call)), filter.clone(), Args::default()) };
        Ok(vec![stmt(line, StmtKind::Macro(Box::new(definition))), stmt(line, StmtKind::Assign(target, value))])
    }

    /// `{% tag "path" as target %}`: the text of the template goes through a filter.
    fn import_tag(&mut self, filter: &Str) -> Result<Vec<Stmt>, Error> {
        let import = self.import()?;
        self.last_identifier += 1;
        let line = import.line;
        let StmtKind::Import { template, target, .. } = &import.kind else { return Ok(vec![import]) };
        // Salt evaluates the path once more as the label of its profiling block.
        let label = stmt(line, StmtKind::Do(template.clone()));
        let name = Expr { line, kind: ExprKind::Name(target.clone()) };
        let value =
            Expr { line, kind: ExprKind::Filter(Some(Box::new(name.clone())), filter.clone(), Args::default()) };
        Ok(vec![label, import, stmt(line, StmtKind::Assign(name, value))])
    }

    /// `{% tag as label %}…{% end %}`: the label is evaluated, the body printed.
    fn labelled(&mut self, end: &'static [&'static str]) -> Result<Vec<Stmt>, Error> {
        let line = self.advance()?.line;
        self.expect_name("as")?;
        let label = self.expression(true)?;
        let body = self.statements(end, true)?;
        self.last_identifier += 1;
        let mut statements = vec![stmt(line, StmtKind::Do(label))];
        statements.extend(body);
        Ok(statements)
    }

    fn set(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let target = self.assign_target(true)?;
        if self.skip("=")? {
            let value = self.tuple(true, false)?;
            return Ok(stmt(line, StmtKind::Assign(target, value)));
        }
        let filter = self.filter(None, false)?;
        let body = self.statements(&["endset"], true)?;
        Ok(stmt(line, StmtKind::AssignBlock(target, filter, body)))
    }

    fn for_statement(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let target = self.assign_target(false)?;
        self.expect_name("in")?;
        // No `x if y` here: the `if` of a loop is its filter.
        let iter = self.tuple(false, false)?;
        let test = if self.skip_name("if")? { Some(self.expression(true)?) } else { None };
        let recursive = self.skip_name("recursive")?;
        // The end is not dropped yet: `else` continues the loop.
        let body = self.statements(&["endfor", "else"], false)?;
        let or_else = if self.advance()?.is_name("endfor") { Vec::new() } else { self.statements(&["endfor"], true)? };
        Ok(stmt(line, StmtKind::For(Box::new(For { target, iter, test, body, or_else, recursive }))))
    }

    fn if_statement(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let mut branches = Vec::new();
        let mut branch_line = line;
        let mut or_else = Vec::new();
        loop {
            let test = self.tuple(false, false)?;
            let body = self.statements(&["elif", "else", "endif"], false)?;
            branches.push((branch_line, test, body));
            let token = self.advance()?;
            if token.is_name("elif") {
                // Jinja takes the line of the condition for an `elif`, but that of the tag for the first branch.
                branch_line = self.current.line;
                continue;
            }
            if token.is_name("else") {
                or_else = self.statements(&["endif"], true)?;
            }
            break;
        }
        Ok(stmt(line, StmtKind::If(Box::new(If { branches, or_else }))))
    }

    fn with(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let (mut targets, mut values) = (Vec::new(), Vec::new());
        while self.current.kind != Kind::BlockEnd {
            if !targets.is_empty() {
                self.expect(",")?;
            }
            targets.push(self.assign_target(false)?);
            self.expect("=")?;
            values.push(self.expression(true)?);
        }
        let body = self.statements(&["endwith"], true)?;
        Ok(stmt(line, StmtKind::With(targets, values, body)))
    }

    fn block(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let name = self.expect_kind(Kind::Name)?.text;
        let scoped = self.skip_name("scoped")?;
        let required = self.skip_name("required")?;
        // `{% block my-name %}` would fail in any case; Jinja explains it.
        if self.current.is("-") {
            return self.fail(
                "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an \
                 underscore instead.",
                self.current.line,
            );
        }
        let body = self.statements(&["endblock"], true)?;
        let is_space =
            |expr: &Expr| matches!(&expr.kind, ExprKind::Data(text) if text.chars().all(crate::python::text::is_space));
        let blank = body.iter().all(|stmt| matches!(&stmt.kind, StmtKind::Output(parts) if parts.iter().all(is_space)));
        if required && !blank {
            return self.fail("Required blocks can only contain comments or whitespace", self.current.line);
        }
        // The end tag may repeat the block's name.
        self.skip_name(&name)?;
        Ok(stmt(line, StmtKind::Block { name, body, scoped, required }))
    }

    fn import_context(&mut self, default: bool) -> Result<bool, Error> {
        let with = self.current.is_name("with");
        // Both words are needed: `with` alone may be a variable's name.
        if (with || self.current.is_name("without")) && self.look()?.is_name("context") {
            self.advance()?;
            self.advance()?;
            return Ok(with);
        }
        Ok(default)
    }

    fn include(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let template = self.expression(true)?;
        let ignore_missing = self.current.is_name("ignore") && self.look()?.is_name("missing");
        if ignore_missing {
            self.advance()?;
            self.advance()?;
        }
        let with_context = self.import_context(true)?;
        Ok(stmt(line, StmtKind::Include { template, ignore_missing, with_context }))
    }

    fn import(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let template = self.expression(true)?;
        self.expect_name("as")?;
        let (target, _) = self.name_target()?;
        let with_context = self.import_context(false)?;
        Ok(stmt(line, StmtKind::Import { template, target, with_context }))
    }

    fn import_names(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let template = self.expression(true)?;
        self.expect_name("import")?;
        let mut names: Vec<(Str, Str)> = Vec::new();
        let mut context;
        let parse_context = |this: &mut Self| -> Result<Option<bool>, Error> {
            // Jinja compares only the token's text here, so that even a string `'with'` counts.
            let with = this.current.kind != Kind::Data && &*this.current.text == "with";
            if (with || &*this.current.text == "without") && this.look()?.is_name("context") {
                this.advance()?;
                this.advance()?;
                return Ok(Some(with));
            }
            Ok(None)
        };
        loop {
            if !names.is_empty() {
                self.expect(",")?;
            }
            if self.current.kind != Kind::Name {
                self.expect_kind(Kind::Name)?;
            }
            context = parse_context(self)?;
            if context.is_some() {
                break;
            }
            let (name, name_line) = self.name_target()?;
            // Private names are not exported, and asking for one is an error when the template is compiled.
            if name.starts_with('_') {
                return self.fail_assertion("names starting with an underline can not be imported", name_line);
            }
            let alias = if self.skip_name("as")? { self.name_target()?.0 } else { name.clone() };
            names.push((name, alias));
            context = parse_context(self)?;
            if context.is_some() || !self.current.is(",") {
                break;
            }
        }
        let with_context = context.unwrap_or(false);
        Ok(stmt(line, StmtKind::FromImport { template, names, with_context }))
    }

    fn signature(&mut self) -> Result<(Vec<Str>, Vec<Expr>), Error> {
        let (mut params, mut defaults) = (Vec::new(), Vec::new());
        self.expect("(")?;
        while !self.current.is(")") {
            if !params.is_empty() {
                self.expect(",")?;
            }
            let (name, _) = self.name_target()?;
            if self.skip("=")? {
                defaults.push(self.expression(true)?);
            // Defaults belong to the last parameters; that is how they are stored.
            } else if !defaults.is_empty() {
                return self.fail("non-default argument follows default argument", self.current.line);
            }
            params.push(name);
        }
        self.expect(")")?;
        Ok((params, defaults))
    }

    fn macro_definition(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let (name, _) = self.name_target()?;
        let (params, defaults) = self.signature()?;
        let body = self.statements(&["endmacro"], true)?;
        Ok(stmt(line, StmtKind::Macro(Box::new(MacroDef { name: Some(name), params, defaults, body }))))
    }

    fn call_block(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let (params, defaults) = if self.current.is("(") { self.signature()? } else { (Vec::new(), Vec::new()) };
        let call = self.expression(true)?;
        if !matches!(call.kind, ExprKind::Call(..)) {
            return self.fail("expected call", line);
        }
        let body = self.statements(&["endcall"], true)?;
        let definition = MacroDef { name: None, params, defaults, body };
        Ok(stmt(line, StmtKind::CallBlock(Box::new(definition), call)))
    }

    fn print(&mut self) -> Parsed {
        let line = self.advance()?.line;
        let mut parts = Vec::new();
        while self.current.kind != Kind::BlockEnd {
            if !parts.is_empty() {
                self.expect(",")?;
            }
            parts.push(self.expression(true)?);
        }
        Ok(stmt(line, StmtKind::Output(parts)))
    }

    /// Parses a name as the target of an assignment.
    fn name_target(&mut self) -> Result<(Str, u32), Error> {
        let token = self.expect_kind(Kind::Name)?;
        if is_constant(&token.text) {
            // Jinja's message names the kind of the node, not the variable.
            return self.fail("can't assign to 'name'", token.line);
        }
        Ok((token.text, token.line))
    }

    /// Parses the target of an assignment: a name, a tuple of names or, if `namespaces`, `name.attr`.
    fn assign_target(&mut self, namespaces: bool) -> Result<Expr, Error> {
        let target = self.tuple_of(false, |this| this.primary(namespaces))?;
        if !can_assign(&target) {
            let name = repr_str(kind_name(&target.kind));
            return self.fail(format!("can't assign to {name}"), target.line);
        }
        Ok(target)
    }
}

fn is_constant(name: &str) -> bool {
    matches!(name, "true" | "false" | "none" | "True" | "False" | "None")
}

fn can_assign(target: &Expr) -> bool {
    match &target.kind {
        ExprKind::Name(name) => !is_constant(name),
        ExprKind::NamespaceRef(..) => true,
        ExprKind::Tuple(items) => items.iter().all(can_assign),
        _ => false,
    }
}

fn kind_name(kind: &ExprKind) -> &'static str {
    match kind {
        ExprKind::Const(_) => "const",
        ExprKind::Name(_) => "name",
        ExprKind::Tuple(_) => "tuple",
        ExprKind::List(_) => "list",
        ExprKind::Dict(_) => "dict",
        _ => "expression",
    }
}
